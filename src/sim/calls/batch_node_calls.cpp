// SPDX-License-Identifier: Apache-2.0
// Graph nodes that wait for values in memory, and write values.
// Source: CUDA Driver API, cuGraphAddBatchMemOpNode.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "sim/call.hpp"
#include "sim/graph/node_work.hpp"
#include "sim/work/value_operations.hpp"

namespace berth::sim {
namespace {

/// Converts `params` to work.
CUresult read_params(State& state, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params,
                     std::vector<Work>& works) {
  if (params == nullptr || params->paramArray == nullptr || params->flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (params->count == 0 || params->count > kValueOperationsMax) return CUDA_ERROR_INVALID_VALUE;
  const Context* context = state.contexts.find(to_handle(params->ctx));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return read_operations(state, *context, {params->paramArray, params->count}, works);
}

void set_params(GraphNode& node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params,
                std::vector<Work> works) {
  set_batch(node, to_handle(params.ctx), {params.paramArray, params.count}, std::move(works));
}

GraphNode* find_batch_node(State& state, CUgraphNode node) {
  GraphNode* found = state.graph_nodes.find(to_handle(node));
  return found != nullptr && found->batch != nullptr ? found : nullptr;
}

/// Whether `params` has the context and the operations of `batch`: addresses, values and the
/// conditions of waits may differ.
bool is_same_kind(const ValueBatch& batch, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  return batch.context == to_handle(params.ctx) &&
         std::equal(batch.operations.begin(), batch.operations.end(), params.paramArray,
                    params.paramArray + params.count,
                    [](const CUstreamBatchMemOpParams& one, const CUstreamBatchMemOpParams& other) {
                      return one.operation == other.operation;
                    });
}

}  // namespace

CUresult berth_sim_cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph,
                                            const CUgraphNode* dependencies, std::size_t count,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphAddBatchMemOpNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return add_batch_node(call.state(), {node, graph, dependencies, count}, params);
}

CUresult add_batch_node(State& state, const NodePlace& place,
                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  Graph* found = state.graphs.find(to_handle(place.graph));
  if (place.node == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto earlier = read_dependencies(state, *found, place.dependencies, place.count);
  if (!earlier) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Work> works;
  const CUresult accepted = read_params(state, params, works);
  if (accepted != CUDA_SUCCESS) return accepted;
  GraphNode& made = add_node(state, *found, 0, WaitWork{}, std::move(*earlier));
  set_params(made, *params, std::move(works));
  *place.node = from_handle<CUgraphNode>(made.handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
                                                  CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphBatchMemOpNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* found = find_batch_node(call.state(), node);
  if (found == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->ctx = from_handle<CUcontext>(found->batch->context);
  params->count = static_cast<unsigned>(found->batch->operations.size());
  params->paramArray = found->batch->operations.data();
  params->flags = 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphBatchMemOpNodeSetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return change_batch_node(call.state(), node, params);
}

CUresult change_batch_node(State& state, CUgraphNode node,
                           const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  GraphNode* found = find_batch_node(state, node);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Work> works;
  const CUresult accepted = read_params(state, params, works);
  if (accepted == CUDA_SUCCESS) set_params(*found, *params, std::move(works));
  return accepted;
}

CUresult berth_sim_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphExecBatchMemOpNodeSetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return change_batch_exec(call.state(), exec, node, params);
}

CUresult change_batch_exec(State& state, CUgraphExec exec, CUgraphNode node,
                           const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  GraphExec* changed = state.graph_execs.find(to_handle(exec));
  const GraphNode* found = find_batch_node(state, node);
  if (changed == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Work> works;
  const CUresult accepted = read_params(state, params, works);
  if (accepted != CUDA_SUCCESS) return accepted;
  const std::span<GraphExec::Node> nodes = nodes_for(*changed, *found);
  if (nodes.empty() || !is_same_kind(*nodes.front().batch, *params))
    return CUDA_ERROR_INVALID_VALUE;
  BERTH_CHECK(works.size() == nodes.size());
  for (std::size_t i = 0; i < works.size(); ++i) nodes[i].work = std::move(works[i]);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
