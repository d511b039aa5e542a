// SPDX-License-Identifier: Apache-2.0
// The uses of host memory by graphs and executable graphs. An existing graph may be launched again,
// so waiting for work does not end its use. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/check/shadow_memory.hpp"

namespace berth::sim {

struct GraphExec;
struct Range;
struct State;

/// A use by a graph node.
struct GraphUse {
  Handle graph;  ///< or executable graph
  bool is_executable;
  Use use;  ///< its addresses and kind
};

/// The first use of [start, start + bytes) by a graph or an executable graph, in memory that was
/// not freed since the node was captured or added.
std::optional<GraphUse> find_graph_use(State& state, std::uint64_t start, std::uint64_t bytes);

/// `call` frees the host memory `range`: nodes that use it must not be launched again. Their graphs
/// may still be destroyed.
void note_freed(State& state, const Range& range, const CallSite& call);

}  // namespace berth::sim
