// SPDX-License-Identifier: Apache-2.0
// Nodes of kernels, which a program adds or captures. The stand-in for a kernel is asked by the
// call that sets the parameters, not by launches of the graph.
// Source: CUDA Driver API, "Graph Management".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "sim/calls/kernel_launches.hpp"
#include "sim/functions.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {

/// What cuGraphKernelNodeGetParams returns, with the arguments that it refers to.
struct KernelNodeParams {
  CUDA_KERNEL_NODE_PARAMS given = {};
  std::vector<std::byte> values = {};
  std::vector<void*> arguments = {};  ///< into `values`; empty if their sizes are not known
};

/// `stream` has captured `request`.
void keep_captured_launch(State& state, const Stream& stream, const LaunchRequest& request);

// `function` is the call.
CUresult add_kernel_node(Function function, const NodePlace& place,
                         const CUDA_KERNEL_NODE_PARAMS* params);
CUresult change_kernel_node(Function function, CUgraphNode node,
                            const CUDA_KERNEL_NODE_PARAMS* params);
CUresult change_kernel_exec(Function function, CUgraphExec exec, CUgraphNode node,
                            const CUDA_KERNEL_NODE_PARAMS* params);

}  // namespace berth::sim
