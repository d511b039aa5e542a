// SPDX-License-Identifier: Apache-2.0
// Nodes of copies and fills, and their parameters.
// Source: CUDA Driver API, "Graph Management".
#include <cstddef>
#include <utility>

#include "sim/call.hpp"
#include "sim/graph/node_work.hpp"

namespace berth::sim {
namespace {

/// One side of a copy that was captured.
CUmemorytype type_at(State& state, std::uint64_t address, std::size_t bytes) {
  const bool on_device = state.addresses.span(address, bytes).kind == Span::Kind::device;
  return on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

/// The parameters of a copy that was captured.
CUDA_MEMCPY3D describe(State& state, const CopyWork& copy) {
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = type_at(state, copy.source, copy.source_extent());
  params.srcHost = from_handle<const void*>(copy.source);
  params.srcDevice = copy.source;
  params.srcPitch = copy.source_pitch;
  params.dstMemoryType = type_at(state, copy.destination, copy.destination_extent());
  params.dstHost = from_handle<void*>(copy.destination);
  params.dstDevice = copy.destination;
  params.dstPitch = copy.destination_pitch;
  params.WidthInBytes = copy.width;
  params.Height = copy.rows;
  params.Depth = 1;
  return params;
}

template <class Params, class Read>
CUresult change_exec_node(Function function, CUgraphExec exec, CUgraphNode node,
                          CUgraphNodeType type, const Params* params, CUcontext context,
                          Read&& read) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphExec* const changed = call.state().graph_execs.find(to_handle(exec));
  const GraphNode* const found = find_node(call.state(), node, type);
  if (changed == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  const CUresult accepted = read(call.state(), params, context, work);
  return accepted == CUDA_SUCCESS ? change_exec(*changed, *found, work) : accepted;
}

/// A node keeps its context.
template <class Params, class Read>
CUresult change_graph_node(Function function, CUgraphNode node, CUgraphNodeType type,
                           const Params* params, Read&& read) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  GraphNode* const found = find_node(call.state(), node, type);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  const CUresult accepted =
      read(call.state(), params, from_handle<CUcontext>(found->context), work);
  if (accepted == CUDA_SUCCESS) change_node(*found, std::move(work));
  return accepted;
}

}  // namespace

CUresult berth_sim_cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, std::size_t count,
                                        const CUDA_MEMCPY3D* params, CUcontext context) {
  Call call(Function::k_cuGraphAddMemcpyNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  NodeWork work;
  const CUresult accepted = read_copy_node(call.state(), params, context, work);
  return add_node(call.state(), {node, graph, dependencies, count}, accepted, std::move(work));
}

CUresult berth_sim_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  Call call(Function::k_cuGraphMemcpyNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (found == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* const copy = std::get_if<CopyWork>(&found->work);
  if (copy == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  *params = found->volume != nullptr ? *found->volume : describe(call.state(), *copy);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return change_graph_node(Function::k_cuGraphMemcpyNodeSetParams, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                           params, read_copy_node);
}

CUresult berth_sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMCPY3D* params, CUcontext context) {
  return change_exec_node(Function::k_cuGraphExecMemcpyNodeSetParams, exec, node,
                          CU_GRAPH_NODE_TYPE_MEMCPY, params, context, read_copy_node);
}

CUresult berth_sim_cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, std::size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  Call call(Function::k_cuGraphAddMemsetNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  NodeWork work;
  const CUresult accepted = read_fill_node(call.state(), params, context, work);
  return add_node(call.state(), {node, graph, dependencies, count}, accepted, std::move(work));
}

CUresult berth_sim_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphMemsetNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* const found = find_node(call.state(), node, CU_GRAPH_NODE_TYPE_MEMSET);
  if (found == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& fill = std::get<MemsetWork>(found->work);
  *params = {.dst = fill.destination,
             .pitch = fill.pitch,
             .value = fill.value,
             .elementSize = fill.value_bytes,
             .width = fill.width / fill.value_bytes,
             .height = fill.rows};
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphMemsetNodeSetParams(CUgraphNode node,
                                              const CUDA_MEMSET_NODE_PARAMS* params) {
  return change_graph_node(Function::k_cuGraphMemsetNodeSetParams, node, CU_GRAPH_NODE_TYPE_MEMSET,
                           params, read_fill_node);
}

CUresult berth_sim_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* params,
                                                  CUcontext context) {
  return change_exec_node(Function::k_cuGraphExecMemsetNodeSetParams, exec, node,
                          CU_GRAPH_NODE_TYPE_MEMSET, params, context, read_fill_node);
}

}  // namespace berth::sim
