// SPDX-License-Identifier: Apache-2.0
// What graphs, and executable graphs, do to host memory whenever they are launched. A graph that
// still exists may be launched again, so no wait for work ends its use. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/check/shadow_memory.hpp"

namespace berth::sim {

struct GraphExec;
struct Range;
struct State;

/// A use by a node.
struct GraphUse {
  Handle graph;  ///< or executable graph
  bool is_executable;
  Use use;  ///< its addresses and kind
};

/// The first use that a graph, or an executable one, makes of [start, start + bytes), of memory
/// that was not freed since it was captured or added.
std::optional<GraphUse> find_graph_use(State& state, std::uint64_t start, std::uint64_t bytes);

/// `range`, of host memory, is freed by `call`: nodes that use it must not be launched any more. To
/// destroy their graphs later is no mistake.
void note_freed(State& state, const Range& range, const CallSite& call);

}  // namespace berth::sim
