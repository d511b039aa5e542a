// SPDX-License-Identifier: Apache-2.0
// Changes of the edges and nodes of a graph, and of what an executable graph runs.
// Source: CUDA Driver API, "Graph Management".
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "sim/call.hpp"
#include "sim/graph/edge_data.hpp"
#include "sim/graph/graph_update.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {
namespace {

/// The end of an edge; null if there is no such node in `graph`.
GraphNode* find_end(State& state, const Graph& graph, CUgraphNode node) {
  GraphNode* const found = state.graph_nodes.find(to_handle(node));
  return found != nullptr && found->graph == graph.handle ? found : nullptr;
}

bool depends_on(const GraphNode& node, CUgraphNode earlier) {
  return std::find(node.dependencies.begin(), node.dependencies.end(), earlier) !=
         node.dependencies.end();
}

/// Whether the edge from `from` to `to`, which is not there, can be added: it makes no cycle.
bool is_acyclic(State& state, CUgraphNode from, CUgraphNode to) {
  return !ancestors(state, {from}).contains(to_handle(to));
}

/// The graph of a call about `count` edges; null with the error in `error`.
Graph* find_graph(State& state, CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                  const CUgraphEdgeData* data, std::size_t count, CUresult& error) {
  Graph* const found = state.graphs.find(to_handle(graph));
  error = CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr || (count != 0 && (from == nullptr || to == nullptr))) return nullptr;
  if (count != 0 && have_data(data, count)) {
    error = CUDA_ERROR_NOT_SUPPORTED;
    return nullptr;
  }
  error = CUDA_SUCCESS;
  return found;
}

void remove_edge(GraphNode& node, CUgraphNode earlier) {
  node.dependencies.erase(std::find(node.dependencies.begin(), node.dependencies.end(), earlier));
}

}  // namespace

// If one of the edges cannot be added, none is.
CUresult berth_sim_cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                          const CUgraphNode* to, const CUgraphEdgeData* data,
                                          std::size_t count) {
  Call call(Function::k_cuGraphAddDependencies, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  CUresult error = CUDA_SUCCESS;
  Graph* const changed = find_graph(state, graph, from, to, data, count, error);
  if (changed == nullptr) return error;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* const earlier = find_end(state, *changed, from[i]);
    GraphNode* const later = find_end(state, *changed, to[i]);
    const bool is_new = earlier != nullptr && later != nullptr && !depends_on(*later, from[i]);
    if (!is_new || !is_acyclic(state, from[i], to[i])) {
      while (i-- > 0) remove_edge(*state.graph_nodes.find(to_handle(to[i])), from[i]);
      return CUDA_ERROR_INVALID_VALUE;
    }
    later->dependencies.push_back(from[i]);
    changed->has_later_dependencies = true;
  }
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                             const CUgraphNode* to, const CUgraphEdgeData* data,
                                             std::size_t count) {
  Call call(Function::k_cuGraphRemoveDependencies, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  CUresult error = CUDA_SUCCESS;
  Graph* const changed = find_graph(state, graph, from, to, data, count, error);
  if (changed == nullptr) return error;
  if (count != 0 && has_memory_nodes(state, *changed)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::pair<GraphNode*, std::vector<CUgraphNode>>> before;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* const later = find_end(state, *changed, to[i]);
    if (later == nullptr || !depends_on(*later, from[i])) {
      for (auto node = before.rbegin(); node != before.rend(); ++node)
        node->first->dependencies = std::move(node->second);
      return CUDA_ERROR_INVALID_VALUE;
    }
    before.emplace_back(later, later->dependencies);
    remove_edge(*later, from[i]);
  }
  return CUDA_SUCCESS;
}

// A stream that captures into the graph may have to come after the node, which then stays.
CUresult berth_sim_cuGraphDestroyNode(CUgraphNode node) {
  Call call(Function::k_cuGraphDestroyNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const GraphNode* const found = state.graph_nodes.find(to_handle(node));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph& graph = *state.graphs.find(found->graph);
  if (graph.capture != 0 || has_memory_nodes(state, graph)) return CUDA_ERROR_INVALID_VALUE;
  for (const CUgraphNode other : graph.nodes) {
    GraphNode& later = *state.graph_nodes.find(to_handle(other));
    if (depends_on(later, node)) remove_edge(later, node);
  }
  graph.nodes.erase(std::find(graph.nodes.begin(), graph.nodes.end(), node));
  if (found->child != 0) destroy_graph(state, found->child);
  state.graph_nodes.erase(to_handle(node));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  Call call(Function::k_cuGraphNodeSetEnabled, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphExec* const changed = call.state().graph_execs.find(to_handle(exec));
  const GraphNode* const found = call.state().graph_nodes.find(to_handle(node));
  if (changed == nullptr || found == nullptr || !can_be_disabled(*found))
    return CUDA_ERROR_INVALID_VALUE;
  const auto nodes = nodes_for(*changed, *found);
  for (GraphExec::Node& made : nodes) made.is_enabled = enabled != 0;
  return nodes.empty() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  Call call(Function::k_cuGraphNodeGetEnabled, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphExec* const asked = call.state().graph_execs.find(to_handle(exec));
  const GraphNode* const found = call.state().graph_nodes.find(to_handle(node));
  if (asked == nullptr || found == nullptr || enabled == nullptr || !can_be_disabled(*found))
    return CUDA_ERROR_INVALID_VALUE;
  const auto nodes = nodes_for(*asked, *found);
  if (nodes.empty()) return CUDA_ERROR_INVALID_VALUE;
  *enabled = nodes.front().is_enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                      CUgraph child) {
  Call call(Function::k_cuGraphExecChildGraphNodeSetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return change_child_exec(call.state(), exec, node, child);
}

CUresult change_child_exec(State& state, CUgraphExec exec, CUgraphNode node, CUgraph child) {
  GraphExec* const changed = state.graph_execs.find(to_handle(exec));
  const GraphNode* const found = find_node(state, node, CU_GRAPH_NODE_TYPE_GRAPH);
  const Graph* const with = state.graphs.find(to_handle(child));
  if (changed == nullptr || found == nullptr || with == nullptr || with->capture != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return update_child(state, *changed, *found, *with);
}

}  // namespace berth::sim
