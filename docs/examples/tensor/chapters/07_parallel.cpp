// SPDX-License-Identifier: Apache-2.0
#include "parallel.hpp"
#include "program.hpp"

using mini::Tensor;

struct Layer : mini::Module {
  Layer() { parameter("weight", weight); }
  Tensor forward(const Tensor& input) override { return matmul(input, weight); }

  Tensor weight = mini::full({64, 8}, 0.5F);
};

/// The microseconds that the host and all devices take for `body`.
template <class Body>
double microseconds(const Body& body) {
  const auto wait = [] {
    for (int index = 0; index < mini::device_count(); ++index)
      mini::synchronize(berth::Device::cuda(index));
  };
  wait();
  const std::uint64_t start = mini::library().kernels->now_ns();
  body();
  wait();
  return double(mini::library().kernels->now_ns() - start) / 1000;
}

/// How many times as fast two devices are as one.
double speedup(const std::vector<mini::Module*>& replicas, const Tensor& batch) {
  const auto on_one = [&] { replicas[0]->forward(batch); };
  const auto on_all = [&] { mini::forward(replicas, batch); };
  on_one();
  on_all();  // memory is cached from here on
  const double one = microseconds(on_one);
  return one / microseconds(on_all);
}

void chapter(std::ostream& out, bool timed) {
  for (int index = 0; index < mini::device_count(); ++index) {
    const berth::DeviceInfo& info = mini::devices().info(berth::Device::cuda(index));
    out << "cuda:" << index << " is device " << info.physical << " at " << info.pci_bus_id << '\n';
  }

  Layer first;
  Layer second;
  first.to("cuda:0");
  second.to("cuda:1");
  add_scaled(first.weight, mini::full({64, 8}, 1, "cuda:0"), 0.25F);
  copy_state(first, second);
  const std::vector<mini::Module*> replicas = {&first, &second};
  const Tensor batch = mini::full({4, 64}, 1, "cuda:0");
  const Tensor output = mini::forward(replicas, batch);
  out << "output on " << output.device().to_string() << ", the same as on one device: "
      << (output.values() == first.forward(batch).values() ? "yes\n" : "no\n");

  mini::show_error(out, [&] { mini::forward(replicas, mini::full({5, 64}, 1, "cuda:0")); });
  mini::show_error(out, [&] { mini::forward({}, batch); });
  mini::show_error(out, [&] { mini::full({1}, 0, "cuda:2"); });
  if (!timed) return;
  for (const long rows : {4, 64, 1024}) {
    out << rows << " rows: " << speedup(replicas, mini::full({rows, 64}, 1, "cuda:0"))
        << " times as fast on two devices\n";
  }
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=2");
}
