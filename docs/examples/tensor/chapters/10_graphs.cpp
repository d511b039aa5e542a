// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"
#include "training.hpp"

using mini::Tensor;

/// The microseconds that the host takes to submit 100 steps.
template <class Step>
double host_microseconds(const Step& step) {
  mini::synchronize("cuda");
  const std::uint64_t start = mini::library().kernels->now_ns();
  for (int count = 0; count < 100; ++count) step();
  const std::uint64_t end = mini::library().kernels->now_ns();
  mini::synchronize("cuda");
  return double(end - start) / 1000;
}

void chapter(std::ostream& out, bool timed) {
  mini::Regression model;
  model.to("cuda");
  // What the graph reads and writes, in every replay.
  const Tensor batch = mini::full({mini::kRows, mini::kFeatures}, 0.5, "cuda");
  const Tensor one = mini::full({1}, 1, "cuda");
  Tensor loss;

  const auto step = [&] {
    const Tensor error = model.forward(batch) - one;
    add_scaled(model.weight, matmul(batch, error, true), -0.01F / mini::kRows);
    loss = mean_square(error);
  };
  step();
  out << "loss " << loss.item() << '\n';
  {
    const mini::Graph graph("cuda", step);
    for (int count = 0; count < 10; ++count) graph.replay();
    out << "after 10 replays: loss " << loss.item() << '\n';
    out << "memory of the graph: " << berth::format_bytes(graph.bytes()) << '\n';
    mini::library().runtime.memory(berth::Device::cuda(0)).trim();
    out << "after a trim: " << berth::format_bytes(graph.bytes()) << '\n';
    if (timed) {
      const double replayed = host_microseconds([&] { graph.replay(); });
      out << "100 steps take the host " << host_microseconds(step) << " us, and " << replayed
          << " us as a graph\n";
    }
    loss = Tensor();
  }
  mini::show_error(out, [&] {
    const mini::Graph broken("cuda", [&] {
      step();
      out << loss.item();  // there is no loss to wait for: nothing runs
    });
  });
  mini::show_error(out, [&] {
    const mini::Graph outer("cuda", [&] {
      step();
      const mini::Graph inner("cuda", step);
    });
  });
  loss = Tensor();
  step();
  out << "and on: loss " << loss.item() << '\n';
}

int main(int argc, char** argv) {
  return mini::program(argc, argv, chapter, "devices=1");
}
