// SPDX-License-Identifier: Apache-2.0
// What happens if a graph is replayed after the pool of its memory was closed.
#include "../core/ops.hpp"
#include "program.hpp"

using mini::Tensor;

void replay_too_late(std::ostream& out, bool) {
  const berth::StreamRef stream = mini::library().stream("cuda");
  berth::DeviceAllocator& memory = mini::library().runtime.memory(stream.device());
  const Tensor one = mini::full({1000}, 1, "cuda");
  berth::Graph graph;
  {
    const berth::MemoryPool pool = memory.create_pool({.name = "graph", .for_graphs = true});
    const auto scope = berth::PoolScope::on_stream(pool, stream);
    berth::GraphCapture capture(stream);
    const Tensor sum = one + one;
    graph = capture.end();
  }  // here the pool is closed, and its memory goes back to the driver
  graph.replay(stream);
  mini::show_error(out, [&] { stream.sync(); });
}

int main() {
  for (const std::string& finding : mini::simulate(replay_too_late, "devices=1", std::cout, false))
    std::cout << finding << '\n';
}
