// SPDX-License-Identifier: Apache-2.0
// Nodes of host functions and events, which a program adds itself.
// Source: CUDA Driver API, "Graph Management".
#include <cstddef>
#include <utility>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

/// Adds a node that does `work` in `context`.
CUresult add(State& state, CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
             std::size_t count, Handle context, Work work, Handle awaits = 0) {
  Graph* const found = state.graphs.find(to_handle(graph));
  if (node == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto earlier = read_dependencies(state, *found, dependencies, count);
  if (!earlier) return CUDA_ERROR_INVALID_VALUE;
  GraphNode& made = add_node(state, *found, context, std::move(work), std::move(*earlier));
  made.awaits = awaits;
  *node = from_handle<CUgraphNode>(made.handle);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuGraphAddHostNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies, std::size_t count,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphAddHostNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (params == nullptr || params->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(call.state(), node, graph, dependencies, count, 0,
             HostFunctionWork{.function = params->fn, .data = params->userData});
}

CUresult berth_sim_cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* dependencies, std::size_t count,
                                             CUevent event) {
  Call call(Function::k_cuGraphAddEventRecordNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Event* const found = call.state().events.find(to_handle(event));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(call.state(), node, graph, dependencies, count, found->context,
             RecordWork{found->handle});
}

CUresult berth_sim_cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, std::size_t count,
                                           CUevent event) {
  Call call(Function::k_cuGraphAddEventWaitNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Event* const found = call.state().events.find(to_handle(event));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(call.state(), node, graph, dependencies, count, 0, WaitWork{}, found->handle);
}

}  // namespace berth::sim
