// SPDX-License-Identifier: Apache-2.0
// An executable graph takes over the parameters of a graph of the same shape. Guarded by
// sim::mutex.
#pragma once

#include <cuda.h>

#include "sim/graph/graph.hpp"

namespace berth::sim {

/// CU_GRAPH_EXEC_UPDATE_SUCCESS: launches from now on do what `graph` does. Otherwise `exec` is as
/// it was, and the result names the node of `graph` that does not fit. Nodes are paired in the
/// order in which they were added.
CUgraphExecUpdateResultInfo update(State& state, GraphExec& exec, const Graph& graph);

}  // namespace berth::sim
