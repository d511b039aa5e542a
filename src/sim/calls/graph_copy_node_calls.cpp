// SPDX-License-Identifier: Apache-2.0
// Nodes of copies and fills, and their parameters.
// Source: CUDA Driver API, "Graph Management".
#include <cstddef>

#include "sim/graph/node_calls.hpp"

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

auto reading(const CUDA_MEMCPY3D* params) {
  return [params](State& state, CUcontext context, NodeWork& work) {
    return read_copy_node(state, params, context, work);
  };
}

auto reading(const CUDA_MEMSET_NODE_PARAMS* params) {
  return [params](State& state, CUcontext context, NodeWork& work) {
    return read_fill_node(state, params, context, work);
  };
}

}  // namespace

CUresult berth_sim_cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, std::size_t count,
                                        const CUDA_MEMCPY3D* params, CUcontext context) {
  return add_node(Function::k_cuGraphAddMemcpyNode, {node, graph, dependencies, count},
                  reading(params), context);
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
  return change_node(Function::k_cuGraphMemcpyNodeSetParams, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                     reading(params));
}

CUresult berth_sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMCPY3D* params, CUcontext context) {
  return change_exec(Function::k_cuGraphExecMemcpyNodeSetParams, exec, node,
                     CU_GRAPH_NODE_TYPE_MEMCPY, reading(params), context);
}

CUresult berth_sim_cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, std::size_t count,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return add_node(Function::k_cuGraphAddMemsetNode, {node, graph, dependencies, count},
                  reading(params), context);
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
  return change_node(Function::k_cuGraphMemsetNodeSetParams, node, CU_GRAPH_NODE_TYPE_MEMSET,
                     reading(params));
}

CUresult berth_sim_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_MEMSET_NODE_PARAMS* params,
                                                  CUcontext context) {
  return change_exec(Function::k_cuGraphExecMemsetNodeSetParams, exec, node,
                     CU_GRAPH_NODE_TYPE_MEMSET, reading(params), context);
}

}  // namespace berth::sim
