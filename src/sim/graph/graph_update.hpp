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

/// The same for the child graph of `node`, which `exec` was instantiated with.
/// CUDA_ERROR_INVALID_VALUE if `child` has another shape.
CUresult update_child(State& state, GraphExec& exec, const GraphNode& node, const Graph& child);

}  // namespace berth::sim
