// SPDX-License-Identifier: Apache-2.0
// Graph nodes of host functions, events, memory and child graphs, and generic ones.
// Source: CUDA Runtime API, "Graph Management".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/node_params.hpp"

namespace berth::cudart {

static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));

cudaError_t berth_cudart_cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t* dependencies,
                                              std::size_t count,
                                              const cudaHostNodeParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphAddHostNode, node, graph, dependencies, count,
                 same<const CUDA_HOST_NODE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                    cudaHostNodeParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphHostNodeGetParams, node,
                 same<CUDA_HOST_NODE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                    const cudaHostNodeParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphHostNodeSetParams, node,
                 same<const CUDA_HOST_NODE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                        const cudaHostNodeParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphExecHostNodeSetParams, exec, node,
                 same<const CUDA_HOST_NODE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphAddEventRecordNode, node, graph, dependencies,
                 count, event);
}

cudaError_t berth_cudart_cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
                                                          cudaEvent_t* event) {
  return forward(Needs::context, &Driver::cuGraphEventRecordNodeGetEvent, node, event);
}

cudaError_t berth_cudart_cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphEventRecordNodeSetEvent, node, event);
}

cudaError_t berth_cudart_cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec,
                                                              cudaGraphNode_t node,
                                                              cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphExecEventRecordNodeSetEvent, exec, node, event);
}

cudaError_t berth_cudart_cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphAddEventWaitNode, node, graph, dependencies, count,
                 event);
}

cudaError_t berth_cudart_cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return forward(Needs::context, &Driver::cuGraphEventWaitNodeGetEvent, node, event);
}

cudaError_t berth_cudart_cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphEventWaitNodeSetEvent, node, event);
}

cudaError_t berth_cudart_cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec,
                                                            cudaGraphNode_t node,
                                                            cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphExecEventWaitNodeSetEvent, exec, node, event);
}

cudaError_t berth_cudart_cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  std::size_t count,
                                                  cudaMemAllocNodeParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphAddMemAllocNode, node, graph, dependencies, count,
                 same<CUDA_MEM_ALLOC_NODE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                        cudaMemAllocNodeParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphMemAllocNodeGetParams, node,
                 same<CUDA_MEM_ALLOC_NODE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies,
                                                 std::size_t count, void* pointer) {
  return forward(Needs::context, &Driver::cuGraphAddMemFreeNode, node, graph, dependencies, count,
                 address(pointer));
}

cudaError_t berth_cudart_cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  return forward(Needs::context, &Driver::cuGraphMemFreeNodeGetParams, node,
                 static_cast<CUdeviceptr*>(pointer));
}

cudaError_t berth_cudart_cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec,
                                                              cudaGraphNode_t node,
                                                              cudaGraph_t child) {
  return forward(Needs::context, &Driver::cuGraphExecChildGraphNodeSetParams, exec, node, child);
}

cudaError_t berth_cudart_cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 unsigned enabled) {
  return forward(Needs::context, &Driver::cuGraphNodeSetEnabled, exec, node, enabled);
}

cudaError_t berth_cudart_cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 unsigned* enabled) {
  return forward(Needs::context, &Driver::cuGraphNodeGetEnabled, exec, node, enabled);
}

cudaError_t berth_cudart_cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* edges, std::size_t count,
                                          cudaGraphNodeParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    CUgraphNodeParams generic;
    const cudaError_t accepted = to_driver(driver, parameters, generic);
    if (accepted != cudaSuccess) return accepted;
    const CUresult added = driver.cuGraphAddNode(
        node, graph, dependencies, same<const CUgraphEdgeData*>(edges), count, &generic);
    if (added == CUDA_SUCCESS && parameters->type == cudaGraphNodeTypeMemAlloc)
      parameters->alloc.dptr = reinterpret_cast<void*>(generic.alloc.dptr);
    return to_error(added);
  });
}

cudaError_t berth_cudart_12_cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                             const cudaGraphNode_t* dependencies, std::size_t count,
                                             cudaGraphNodeParams* parameters) {
  return berth_cudart_cudaGraphAddNode(node, graph, dependencies, nullptr, count, parameters);
}

cudaError_t berth_cudart_cudaGraphNodeSetParams(cudaGraphNode_t node,
                                                cudaGraphNodeParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    CUgraphNodeParams generic;
    const cudaError_t accepted = to_driver(driver, parameters, generic);
    return accepted == cudaSuccess ? to_error(driver.cuGraphNodeSetParams(node, &generic))
                                   : accepted;
  });
}

cudaError_t berth_cudart_cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    cudaGraphNodeParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    CUgraphNodeParams generic;
    const cudaError_t accepted = to_driver(driver, parameters, generic);
    return accepted == cudaSuccess ? to_error(driver.cuGraphExecNodeSetParams(exec, node, &generic))
                                   : accepted;
  });
}

}  // namespace berth::cudart
