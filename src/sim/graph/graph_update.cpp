// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/graph_update.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "sim/state.hpp"

namespace berth::sim {
namespace {

CUgraphExecUpdateResultInfo mismatch(CUgraphExecUpdateResult result, Handle node = 0,
                                     Handle from = 0) {
  return {.result = result,
          .errorNode = reinterpret_cast<CUgraphNode>(node),
          .errorFromNode = reinterpret_cast<CUgraphNode>(from)};
}

/// What keeps `node` of `fresh` from taking the place of `old` in `exec`.
CUgraphExecUpdateResultInfo compare(const GraphExec& exec, const GraphExec::Node& old,
                                    const GraphExec& fresh, const GraphExec::Node& node) {
  if (old.memory || node.memory)
    return mismatch(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, node.origin);
  if (old.dependencies != node.dependencies) {
    const auto differs = [&](std::size_t earlier) {
      return std::find(old.dependencies.begin(), old.dependencies.end(), earlier) ==
             old.dependencies.end();
    };
    const auto edge = std::find_if(node.dependencies.begin(), node.dependencies.end(), differs);
    return mismatch(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node.origin,
                    edge == node.dependencies.end() || *edge >= fresh.nodes.size()
                        ? 0  // it is not in `fresh`
                        : fresh.nodes[*edge].origin);
  }
  if (old.child_nodes != node.child_nodes)
    return mismatch(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node.origin);
  if (old.work.index() != node.work.index() || (old.awaits != 0) != (node.awaits != 0) ||
      (old.batch != nullptr) != (node.batch != nullptr))
    return mismatch(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node.origin);
  const Handle context = fresh.chains[node.chain].context;
  if (context != 0 && exec.chains[old.chain].context != context)
    return mismatch(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node.origin);
  return mismatch(CU_GRAPH_EXEC_UPDATE_SUCCESS);
}

/// Whether the node at `index` is of the same node of the graph as the one before it.
bool continues_node(std::span<const GraphExec::Node> nodes, std::size_t index) {
  return index > 0 && nodes[index].origin == nodes[index - 1].origin;
}

/// Whether `old` and `fresh`, of the same size, are divided alike into nodes of their graphs.
bool have_same_nodes(std::span<const GraphExec::Node> old, std::span<const GraphExec::Node> fresh) {
  for (std::size_t i = 0; i < fresh.size(); ++i)
    if (continues_node(old, i) != continues_node(fresh, i)) return false;
  return true;
}

/// Copies the identity of `old` to `fresh`, which replaces it: the node of the instantiated graph,
/// by which a program finds it, and whether it runs.
void keep_identity(const GraphExec::Node& old, GraphExec::Node& fresh) {
  fresh.origin = old.origin;
  fresh.is_enabled = old.is_enabled;
}

CUgraphExecUpdateResultInfo compare(const GraphExec& exec, const GraphExec& fresh) {
  const std::size_t common = std::min(exec.nodes.size(), fresh.nodes.size());
  for (std::size_t i = 0; i < common; ++i) {
    const auto found = compare(exec, exec.nodes[i], fresh, fresh.nodes[i]);
    if (found.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return found;
  }
  if (exec.nodes.size() == fresh.nodes.size() && have_same_nodes(exec.nodes, fresh.nodes))
    return mismatch(CU_GRAPH_EXEC_UPDATE_SUCCESS);
  return mismatch(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                  common < fresh.nodes.size() ? fresh.nodes[common].origin : 0);
}

}  // namespace

CUgraphExecUpdateResultInfo update(State& state, GraphExec& exec, const Graph& graph) {
  GraphExec fresh(0, exec.flags);
  deal_out(state, graph, fresh);
  const CUgraphExecUpdateResultInfo found = compare(exec, fresh);
  if (found.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return found;
  retain(state, fresh.held);
  // A launch that has not ended still uses what the old nodes held.
  if (!exec.held.empty()) state.held_until.push_back({exec.last_launch, std::move(exec.held), {}});
  exec.held = std::move(fresh.held);
  for (std::size_t i = 0; i < fresh.nodes.size(); ++i) keep_identity(exec.nodes[i], fresh.nodes[i]);
  exec.nodes = std::move(fresh.nodes);
  exec.chains = std::move(fresh.chains);
  return found;
}

CUresult update_child(State& state, GraphExec& exec, const GraphNode& node, const Graph& child) {
  const auto end = std::find_if(exec.nodes.begin(), exec.nodes.end(), [&](const auto& candidate) {
    return candidate.origin == node.handle;
  });
  GraphExec fresh(0, exec.flags);
  deal_out(state, child, fresh);
  if (end == exec.nodes.end() || end->child_nodes != fresh.nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  const auto first = static_cast<std::size_t>(end - exec.nodes.begin()) - end->child_nodes;
  for (std::size_t i = 0; i < fresh.nodes.size(); ++i) {
    const GraphExec::Node& old = exec.nodes[first + i];
    GraphExec::Node& made = fresh.nodes[i];
    // The first nodes of the child graph have the dependencies of the node.
    if (made.dependencies.empty() && (old.dependencies.empty() || old.dependencies.front() < first))
      made.dependencies = old.dependencies;
    else
      for (std::size_t& earlier : made.dependencies) earlier += first;
    if (compare(exec, old, fresh, made).result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!have_same_nodes(std::span(exec.nodes).subspan(first, fresh.nodes.size()), fresh.nodes))
    return CUDA_ERROR_INVALID_VALUE;
  retain(state, fresh.held);
  for (const auto& [object, count] : fresh.held) exec.held[object] += count;
  for (std::size_t i = 0; i < fresh.nodes.size(); ++i) {
    GraphExec::Node& old = exec.nodes[first + i];
    keep_identity(old, fresh.nodes[i]);
    fresh.nodes[i].chain = old.chain;
    fresh.nodes[i].is_last = old.is_last;
    old = std::move(fresh.nodes[i]);
  }
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
