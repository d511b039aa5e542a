// SPDX-License-Identifier: Apache-2.0
#include "../core/module.hpp"
#include "program.hpp"

using mini::Tensor;

struct Linear : mini::Module {
  Linear(long in, long out) : weight(mini::full({in, out}, 0.1F)) { parameter("weight", weight); }
  Tensor forward(const Tensor& input) override { return matmul(input, weight); }

  Tensor weight;
};

struct Model : mini::Module {
  Model() {
    child("first", first);
    child("second", second);
    buffer("mean", mean);
  }
  Tensor forward(const Tensor& input) override {
    const Tensor centered = input - mean;
    // A tensor made on the way takes its device from the input.
    const Tensor offset = mini::full({centered.shape()[0], 2}, 0.5F, input.device());
    return second.forward(first.forward(centered)) + offset;
  }

  Linear first{3, 4};
  Linear second{4, 2};
  Tensor mean = mini::full({1}, 1);
};

/// 1,000 parameters of 4 to 64 KiB.
struct Wide : mini::Module {
  explicit Wide(mini::Device device) {
    for (long index = 0; index < 1000; ++index)
      parameters.emplace_back(mini::Shape{1024 + index % 16 * 1024}, device);
    for (std::size_t index = 0; index < parameters.size(); ++index)
      parameter("p" + std::to_string(index), parameters[index]);
  }
  Tensor forward(const Tensor& input) override { return input; }

  std::vector<Tensor> parameters;
};

std::uint64_t driver_calls() {
  std::uint64_t calls = 0;
  for (const auto& count : mini::library().runtime.statistics().driver_calls) calls += count.calls;
  return calls;
}

struct Cost {
  std::uint64_t calls;
  std::uint64_t ns;
};
template <class Body>
Cost cost_of(const Body& body) {
  const Cost start{driver_calls(), mini::library().kernels->now_ns()};
  body();
  mini::synchronize("cuda");
  return {driver_calls() - start.calls, mini::library().kernels->now_ns() - start.ns};
}

/// What moving 1,000 parameters costs, one by one and as a module.
void compare(std::ostream& out, mini::Device from, mini::Device to) {
  Wide one_by_one(from);
  Wide together(from);
  {
    Wide first(from);  // from here on, memory for two is cached, and staging memory is there
    Wide second(from);
    first.to(to);
    second.to(to);
  }
  const Cost loop = cost_of([&] {
    for (Tensor& parameter : one_by_one.parameters) parameter = parameter.to(to);
  });
  const Cost module = cost_of([&] { together.to(to); });
  out << "from " << from.to_string() << " to " << to.to_string()
      << ": 50 times fewer driver calls: " << (loop.calls >= 50 * module.calls ? "yes" : "no")
      << ", twice as fast: " << (loop.ns >= 2 * module.ns ? "yes\n" : "no\n");
}

void chapter(std::ostream& out, bool timed) {
  Model model;
  const Tensor input = mini::tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::vector<float> on_cpu = model.forward(input).values();
  model.to("cuda");
  for (const auto& named : model.tensors()) {
    out << named.name << (named.is_buffer ? " (buffer)" : "") << ": "
        << named.tensor->device().to_string() << '\n';
  }
  const Tensor output = model.forward(input.to("cuda"));
  out << "the same result: " << (output.values() == on_cpu ? "yes\n" : "no\n");

  mini::show_error(out, [&] { model.forward(input); });
  mini::show_error(out, [&] { model.to("cuda:9"); });
  out << "after the error, still on " << model.mean.device().to_string() << '\n';
  if (timed) {
    compare(out, "cpu", "cuda:0");
    compare(out, "cuda:0", "cpu");
    compare(out, "cuda:1", "cuda:0");
  }
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
