// SPDX-License-Identifier: Apache-2.0
// Allocation and free nodes, and the memory usage of graphs.
// Source: CUDA Driver API, "Graph Management".
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "sim/call.hpp"
#include "sim/graph/node_work.hpp"
#include "sim/memory/access.hpp"

namespace berth::sim {
namespace {

/// Checks `params`, and finds the slot of the device that holds the memory.
CUresult check_params(const State& state, const CUDA_MEM_ALLOC_NODE_PARAMS& params, int& slot) {
  const CUmemPoolProps& properties = params.poolProps;
  if (params.bytesize == 0 || properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  if (params.accessDescCount > state.visible.size() ||
      (params.accessDescCount != 0 && params.accessDescs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult found = find_slot(state, properties.location, slot);
  if (found != CUDA_SUCCESS) return found;
  for (std::size_t i = 0; i < params.accessDescCount; ++i) {
    const CUresult accepted = check_access(state, params.accessDescs[i], slot);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  return CUDA_SUCCESS;
}

/// Allocates the memory of `params`; null if the device is out of memory.
std::shared_ptr<GraphMemory> make_memory(State& state, const Graph& graph, int slot,
                                         const CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  DeviceSet readers = device_bit(slot);
  DeviceSet writers = readers;
  for (std::size_t i = 0; i < params.accessDescCount; ++i)
    apply_access(state, params.accessDescs[i], readers, writers);
  return make_graph_memory(state, graph.handle, slot, params.bytesize, readers, writers);
}

/// The node, if its work is a T.
template <class T>
const GraphNode* find_memory_node(State& state, CUgraphNode node) {
  const GraphNode* found = state.graph_nodes.find(to_handle(node));
  const bool is_one =
      found != nullptr && found->memory != nullptr && std::holds_alternative<T>(found->work);
  return is_one ? found : nullptr;
}

/// The value of `attribute`; null for an invalid attribute.
std::uint64_t* number_of(GraphMemoryUse& use, CUgraphMem_attribute attribute) {
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      return &use.used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      return &use.used_peak;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      return &use.reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      return &use.reserved_peak;
    default:
      return nullptr;
  }
}

}  // namespace

CUresult berth_sim_cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph,
                                          const CUgraphNode* dependencies, std::size_t count,
                                          CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphAddMemAllocNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return add_allocation_node(call.state(), {node, graph, dependencies, count}, params);
}

CUresult add_allocation_node(State& state, const NodePlace& place,
                             CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  Graph* found = state.graphs.find(to_handle(place.graph));
  if (place.node == nullptr || found == nullptr || params == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (found->parent_node != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto earlier = read_dependencies(state, *found, place.dependencies, place.count);
  if (!earlier) return CUDA_ERROR_INVALID_VALUE;
  int slot = 0;
  const CUresult accepted = check_params(state, *params, slot);
  if (accepted != CUDA_SUCCESS) return accepted;
  const std::shared_ptr<GraphMemory> memory = make_memory(state, *found, slot, *params);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  params->dptr = memory->start;
  std::copy_n(params->accessDescs, params->accessDescCount, std::back_inserter(memory->access));
  GraphNode& made = add_node(state, *found, 0, ArriveWork{}, std::move(*earlier));
  made.memory = memory;
  *place.node = from_handle<CUgraphNode>(made.handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphMemAllocNodeGetParams(CUgraphNode node,
                                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  Call call(Function::k_cuGraphMemAllocNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* found = find_memory_node<ArriveWork>(call.state(), node);
  if (found == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const GraphMemory& memory = *found->memory;
  *params = {};
  params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params->poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                call.state().ordinal_of(memory.device)};
  params->accessDescs = memory.access.data();
  params->accessDescCount = memory.access.size();
  params->bytesize = memory.bytes;
  params->dptr = memory.start;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph,
                                         const CUgraphNode* dependencies, std::size_t count,
                                         CUdeviceptr pointer) {
  Call call(Function::k_cuGraphAddMemFreeNode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return add_free_node(call.state(), {node, graph, dependencies, count}, pointer);
}

CUresult add_free_node(State& state, const NodePlace& place, CUdeviceptr pointer) {
  Graph* found = state.graphs.find(to_handle(place.graph));
  const std::shared_ptr<GraphMemory> memory = find_graph_memory(state, pointer);
  if (place.node == nullptr || found == nullptr || memory == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (found->parent_node != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto earlier = read_dependencies(state, *found, place.dependencies, place.count);
  if (!earlier || !claim_free(state, *found, *memory)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode& made = add_node(state, *found, 0, DepartWork{}, std::move(*earlier));
  made.memory = memory;
  *place.node = from_handle<CUgraphNode>(made.handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* pointer) {
  Call call(Function::k_cuGraphMemFreeNodeGetParams, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const GraphNode* found = find_memory_node<DepartWork>(call.state(), node);
  if (found == nullptr || pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pointer = found->memory->start;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGraphMemTrim(CUdevice device) {
  Call call(Function::k_cuDeviceGraphMemTrim, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  trim_graph_memory(call.state(), call.state().device_at(device).facts.slot);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                void* value) {
  Call call(Function::k_cuDeviceGetGraphMemAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::uint64_t* number = number_of(call.state().device_at(device).graph_memory, attribute);
  if (number == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<cuuint64_t*>(value) = *number;
  return CUDA_SUCCESS;
}

// A peak is reset to the current value.
CUresult berth_sim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                void* value) {
  Call call(Function::k_cuDeviceSetGraphMemAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  GraphMemoryUse& use = call.state().device_at(device).graph_memory;
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      use.used_peak = use.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      use.reserved_peak = use.reserved;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace berth::sim
