// SPDX-License-Identifier: Apache-2.0
#include "sim/check/graph_uses.hpp"

#include "sim/check/pending_use.hpp"
#include "sim/state.hpp"

namespace berth::sim {

std::optional<GraphUse> find_graph_use(State& state, std::uint64_t start, std::uint64_t bytes) {
  std::optional<GraphUse> found;
  const auto look = [&](const auto& node, Handle graph, bool is_executable) {
    if (found || node.freed) return;
    if (const auto use = find_use(node.work, start, bytes))
      found = GraphUse{graph, is_executable, *use};
  };
  state.graph_nodes.for_each([&](const GraphNode& node) { look(node, node.graph, false); });
  state.graph_execs.for_each([&](const GraphExec& exec) {
    for (const GraphExec::Node& node : exec.nodes) look(node, exec.handle, true);
  });
  return found;
}

void note_freed(State& state, const Range& range, const CallSite& call) {
  const auto note = [&](auto& node) {
    if (node.freed) return;
    if (const auto use = find_use(node.work, range.start, range.bytes)) {
      node.freed = FreedMemory{call, *use};
      node.freed->call.stack = state.stacks.here();
    }
  };
  state.graph_nodes.for_each([&](GraphNode& node) { note(node); });
  state.graph_execs.for_each([&](GraphExec& exec) {
    for (GraphExec::Node& node : exec.nodes) note(node);
  });
}

}  // namespace berth::sim
