// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Graph Management".
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/graph/node_work.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {
namespace {

struct Edge {
  CUgraphNode from;
  CUgraphNode to;
};

std::vector<Edge> edges_of(State& state, const Graph& graph) {
  std::vector<Edge> edges;
  for (const CUgraphNode node : graph.nodes)
    for (const CUgraphNode earlier : state.graph_nodes.find(to_handle(node))->dependencies)
      edges.push_back({earlier, node});
  return edges;
}

/// `exec` is null if the caller passed none.
CUresult make_executable(Call& call, CUgraphExec* exec, CUgraph graph, std::uint64_t flags) {
  // Priorities of kernel nodes are not simulated.
  constexpr std::uint64_t known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  constexpr std::uint64_t missing = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  State& state = call.state();
  Graph* found = state.graphs.find(to_handle(graph));
  if (exec == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & ~(known | missing)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & missing) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const bool unfinished = found->capture != 0;
  if (unfinished) return CUDA_ERROR_INVALID_VALUE;
  const bool has_one = state.graph_execs.find(found->exec) != nullptr;
  if (has_one && has_memory_nodes(state, *found)) return CUDA_ERROR_INVALID_VALUE;
  *exec = from_handle<CUgraphExec>(instantiate(state, *found, flags).handle);
  return CUDA_SUCCESS;
}

/// Submits the upload to the stream, ordered after earlier launches.
CUresult upload(Call& call, CUgraphExec exec, CUstream stream) BERTH_REQUIRES(mutex) {
  State& state = call.state();
  if (state.graph_execs.find(to_handle(exec)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  const CUresult refusal = refuse_unrecordable(state, *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  const GraphExec* uploaded = state.graph_execs.find(to_handle(exec));
  if (uploaded == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!provide_pages(state, *uploaded)) return CUDA_ERROR_OUT_OF_MEMORY;
  submit_behind(state, *found, WaitWork{}, {uploaded->last_launch});
  return call.end_submission(*found);
}

}  // namespace

CUresult berth_sim_cuGraphCreate(CUgraph* graph, unsigned flags) {
  Call call(Function::k_cuGraphCreate, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = from_handle<CUgraph>(call.state().graphs.create().handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphDestroy(CUgraph graph) {
  Call call(Function::k_cuGraphDestroy, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Graph* found = call.state().graphs.find(to_handle(graph));
  if (found == nullptr || found->capture != 0 || found->parent_node != 0)
    return CUDA_ERROR_INVALID_VALUE;
  destroy_graph(call.state(), found->handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* dependencies, std::size_t count) {
  Call call(Function::k_cuGraphAddEmptyNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return add_node(call.state(), {node, graph, dependencies, count}, CUDA_SUCCESS, {});
}

CUresult berth_sim_cuGraphClone(CUgraph* copy, CUgraph original) {
  Call call(Function::k_cuGraphClone, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Graph* found = call.state().graphs.find(to_handle(original));
  if (copy == nullptr || found == nullptr || found->capture != 0) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(call.state(), *found)) return CUDA_ERROR_NOT_SUPPORTED;
  if (is_too_large_to_clone(call.state(), *found)) return CUDA_ERROR_OUT_OF_MEMORY;
  *copy = from_handle<CUgraph>(clone(call.state(), *found).handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph copy) {
  Call call(Function::k_cuGraphNodeFindInClone, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Graph* found = call.state().graphs.find(to_handle(copy));
  if (node == nullptr || original == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const CUgraphNode candidate : found->nodes) {
    if (call.state().graph_nodes.find(to_handle(candidate))->cloned_from != to_handle(original))
      continue;
    *node = candidate;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult berth_sim_cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph,
                                            const CUgraphNode* dependencies, std::size_t count,
                                            CUgraph child) {
  Call call(Function::k_cuGraphAddChildGraphNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return add_child_node(call.state(), {node, graph, dependencies, count}, child);
}

CUresult add_child_node(State& state, const NodePlace& place, CUgraph child) {
  Graph* found = state.graphs.find(to_handle(place.graph));
  const Graph* original = state.graphs.find(to_handle(child));
  if (place.node == nullptr || found == nullptr || original == nullptr || original->capture != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto earlier = read_dependencies(state, *found, place.dependencies, place.count);
  if (!earlier) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(state, *original)) return CUDA_ERROR_NOT_SUPPORTED;
  if (is_too_large_to_clone(state, *original)) return CUDA_ERROR_OUT_OF_MEMORY;
  *place.node = from_handle<CUgraphNode>(
      add_child_node(state, *found, *original, std::move(*earlier)).handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  Call call(Function::k_cuGraphChildGraphNodeGetGraph, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* found = call.state().graph_nodes.find(to_handle(node));
  if (found == nullptr || graph == nullptr || found->child == 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = from_handle<CUgraph>(found->child);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  Call call(Function::k_cuGraphGetNodes, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Graph* found = call.state().graphs.find(to_handle(graph));
  if (found == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t all = found->nodes.size();
  if (nodes == nullptr) {
    *count = all;
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < all ? found->nodes[i] : nullptr;
  *count = std::min(*count, all);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                   CUgraphEdgeData* data, std::size_t* count) {
  Call call(Function::k_cuGraphGetEdges, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Graph* found = call.state().graphs.find(to_handle(graph));
  if (found == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool counts_only = from == nullptr && to == nullptr && data == nullptr;
  if (!counts_only && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<Edge> edges = edges_of(call.state(), *found);
  if (counts_only) {
    *count = edges.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    from[i] = i < edges.size() ? edges[i].from : nullptr;
    to[i] = i < edges.size() ? edges[i].to : nullptr;
    if (data != nullptr) data[i] = CUgraphEdgeData{};
  }
  *count = std::min(*count, edges.size());
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  Call call(Function::k_cuGraphNodeGetType, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* found = call.state().graph_nodes.find(to_handle(node));
  if (found == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = found->type();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                               unsigned long long flags) {
  Call call(Function::k_cuGraphInstantiateWithFlags, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return make_executable(call, exec, graph, flags);
}

// As the first launch otherwise would, an upload gives allocation nodes their pages. Nothing else
// has to be sent to the device.
CUresult berth_sim_cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  Call call(Function::k_cuGraphInstantiateWithParams, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->hErrNode_out = nullptr;
  params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  const bool uploads = (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  if (uploads && call.find_stream(params->hUploadStream) == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  CUgraphExec made = nullptr;
  const CUresult result =
      make_executable(call, exec == nullptr ? nullptr : &made, graph, params->flags);
  if (result != CUDA_SUCCESS) return result;
  const CUresult uploaded = uploads ? upload(call, made, params->hUploadStream) : CUDA_SUCCESS;
  if (uploaded != CUDA_SUCCESS) {
    if (call.state().graph_execs.find(to_handle(made)) != nullptr)
      destroy_exec(call.state(), to_handle(made));
    return uploaded;
  }
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *exec = made;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphUpload(CUgraphExec exec, CUstream stream) {
  Call call(Function::k_cuGraphUpload, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return upload(call, exec, stream);
}

CUresult berth_sim_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  Call call(Function::k_cuGraphExecGetFlags, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphExec* found = call.state().graph_execs.find(to_handle(exec));
  if (found == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = found->flags;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  Call call(Function::k_cuGraphLaunch, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphExec* launched = call.state().graph_execs.find(to_handle(exec));
  Stream* found = call.find_stream(stream);
  if (launched == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  launched = call.state().graph_execs.find(to_handle(exec));
  if (launched == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_use(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  Capture* capture = find_capture(call.state(), found->captured);
  if (capture != nullptr) {
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  call.state().races.check_launch(call.state(), *launched, call.site());
  const CUresult launch_result = launch(call.state(), *launched, *found);
  return launch_result == CUDA_SUCCESS ? call.end_submission(*found) : launch_result;
}

CUresult berth_sim_cuGraphExecDestroy(CUgraphExec exec) {
  Call call(Function::k_cuGraphExecDestroy, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().graph_execs.find(to_handle(exec)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  destroy_exec(call.state(), to_handle(exec));
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
