// SPDX-License-Identifier: Apache-2.0
// The nodes beside a node.
// Source: CUDA Driver API, "Graph Management".
#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

/// Copies a list to the caller's arrays. If `nodes` is null, only the number is written. Unused
/// entries of `nodes` become null. Edges have no data.
CUresult give(const std::vector<CUgraphNode>& all, CUgraphNode* nodes, CUgraphEdgeData* edges,
              std::size_t* count) {
  if (count == nullptr || (edges != nullptr && nodes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (nodes == nullptr) {
    *count = all.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    nodes[i] = i < all.size() ? all[i] : nullptr;
    if (edges != nullptr) edges[i] = CUgraphEdgeData{};
  }
  *count = std::min(*count, all.size());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  Call call(Function::k_cuGraphGetRootNodes, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Graph* const found = call.state().graphs.find(to_handle(graph));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> roots;
  for (const CUgraphNode node : found->nodes)
    if (call.state().graph_nodes.find(to_handle(node))->dependencies.empty()) roots.push_back(node);
  return give(roots, nodes, nullptr, count);
}

CUresult berth_sim_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes,
                                              CUgraphEdgeData* edges, std::size_t* count) {
  Call call(Function::k_cuGraphNodeGetDependencies, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = call.state().graph_nodes.find(to_handle(node));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return give(found->dependencies, nodes, edges, count);
}

CUresult berth_sim_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes,
                                                CUgraphEdgeData* edges, std::size_t* count) {
  Call call(Function::k_cuGraphNodeGetDependentNodes, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const GraphNode* const found = state.graph_nodes.find(to_handle(node));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> dependents;
  for (const CUgraphNode other : state.graphs.find(found->graph)->nodes) {
    const auto& earlier = state.graph_nodes.find(to_handle(other))->dependencies;
    if (std::find(earlier.begin(), earlier.end(), node) != earlier.end())
      dependents.push_back(other);
  }
  return give(dependents, nodes, edges, count);
}

}  // namespace berth::sim
