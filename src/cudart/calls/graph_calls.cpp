// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Graph Management".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));

cudaError_t berth_cudart_cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return forward(Needs::context, &Driver::cuGraphCreate, graph, flags);
}

cudaError_t berth_cudart_cudaGraphDestroy(cudaGraph_t graph) {
  return forward(Needs::context, &Driver::cuGraphDestroy, graph);
}

cudaError_t berth_cudart_cudaGraphClone(cudaGraph_t* copy, cudaGraph_t original) {
  return forward(Needs::context, &Driver::cuGraphClone, copy, original);
}

cudaError_t berth_cudart_cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies,
                                               std::size_t count) {
  return forward(Needs::context, &Driver::cuGraphAddEmptyNode, node, graph, dependencies, count);
}

cudaError_t berth_cudart_cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    std::size_t count, cudaGraph_t child) {
  return forward(Needs::context, &Driver::cuGraphAddChildGraphNode, node, graph, dependencies,
                 count, child);
}

cudaError_t berth_cudart_cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return forward(Needs::context, &Driver::cuGraphChildGraphNodeGetGraph, node, graph);
}

cudaError_t berth_cudart_cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original,
                                                  cudaGraph_t copy) {
  return forward(Needs::context, &Driver::cuGraphNodeFindInClone, node, original, copy);
}

cudaError_t berth_cudart_cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                           std::size_t* count) {
  return forward(Needs::context, &Driver::cuGraphGetNodes, graph, nodes, count);
}

cudaError_t berth_cudart_cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                               std::size_t* count) {
  return forward(Needs::context, &Driver::cuGraphGetRootNodes, graph, nodes, count);
}

cudaError_t berth_cudart_cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from,
                                           cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                           std::size_t* count) {
  return forward(Needs::context, &Driver::cuGraphGetEdges, graph, from, to,
                 same<CUgraphEdgeData*>(edges), count);
}

cudaError_t berth_cudart_cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return forward(Needs::context, &Driver::cuGraphNodeGetType, node, same<CUgraphNodeType*>(type));
}

cudaError_t berth_cudart_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                      cudaGraphEdgeData* edges,
                                                      std::size_t* count) {
  return forward(Needs::context, &Driver::cuGraphNodeGetDependencies, node, nodes,
                 same<CUgraphEdgeData*>(edges), count);
}

cudaError_t berth_cudart_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                        cudaGraphNode_t* nodes,
                                                        cudaGraphEdgeData* edges,
                                                        std::size_t* count) {
  return forward(Needs::context, &Driver::cuGraphNodeGetDependentNodes, node, nodes,
                 same<CUgraphEdgeData*>(edges), count);
}

cudaError_t berth_cudart_cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to,
                                                  const cudaGraphEdgeData* edges,
                                                  std::size_t count) {
  return forward(Needs::context, &Driver::cuGraphAddDependencies, graph, from, to,
                 same<const CUgraphEdgeData*>(edges), count);
}

cudaError_t berth_cudart_cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                     const cudaGraphNode_t* to,
                                                     const cudaGraphEdgeData* edges,
                                                     std::size_t count) {
  return forward(Needs::context, &Driver::cuGraphRemoveDependencies, graph, from, to,
                 same<const CUgraphEdgeData*>(edges), count);
}

cudaError_t berth_cudart_cudaGraphDestroyNode(cudaGraphNode_t node) {
  return forward(Needs::context, &Driver::cuGraphDestroyNode, node);
}

cudaError_t berth_cudart_12_cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from,
                                              cudaGraphNode_t* to, std::size_t* count) {
  return berth_cudart_cudaGraphGetEdges(graph, from, to, nullptr, count);
}

cudaError_t berth_cudart_12_cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                                         cudaGraphNode_t* nodes,
                                                         std::size_t* count) {
  return berth_cudart_cudaGraphNodeGetDependencies(node, nodes, nullptr, count);
}

cudaError_t berth_cudart_12_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                           cudaGraphNode_t* nodes,
                                                           std::size_t* count) {
  return berth_cudart_cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}

cudaError_t berth_cudart_12_cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                     const cudaGraphNode_t* to, std::size_t count) {
  return berth_cudart_cudaGraphAddDependencies(graph, from, to, nullptr, count);
}

cudaError_t berth_cudart_12_cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                        const cudaGraphNode_t* from,
                                                        const cudaGraphNode_t* to,
                                                        std::size_t count) {
  return berth_cudart_cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}

cudaError_t berth_cudart_cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                              unsigned long long flags) {
  return forward(Needs::context, &Driver::cuGraphInstantiateWithFlags, exec, graph, flags);
}

cudaError_t berth_cudart_cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                       unsigned long long flags) {
  return forward(Needs::context, &Driver::cuGraphInstantiateWithFlags, exec, graph, flags);
}

cudaError_t berth_cudart_cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        cudaGraphInstantiateParams* parameters) {
  return forward(Needs::context, &Driver::cuGraphInstantiateWithParams, exec, graph,
                 same<CUDA_GRAPH_INSTANTIATE_PARAMS*>(parameters));
}

cudaError_t berth_cudart_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuGraphUpload, exec, stream);
}

cudaError_t berth_cudart_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuGraphLaunch, exec, stream);
}

cudaError_t berth_cudart_cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  static_assert(sizeof(unsigned long long) == sizeof(cuuint64_t));
  return forward(Needs::context, &Driver::cuGraphExecGetFlags, exec, same<cuuint64_t*>(flags));
}

cudaError_t berth_cudart_cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return forward(Needs::context, &Driver::cuGraphExecDestroy, exec);
}

cudaError_t berth_cudart_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                             cudaGraphExecUpdateResultInfo* result) {
  return forward(Needs::context, &Driver::cuGraphExecUpdate, exec, graph,
                 same<CUgraphExecUpdateResultInfo*>(result));
}

cudaError_t berth_cudart_cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path,
                                                unsigned flags) {
  return forward(Needs::context, &Driver::cuGraphDebugDotPrint, graph, path, flags);
}

cudaError_t berth_cudart_cudaUserObjectCreate(cudaUserObject_t* object, void* data,
                                              cudaHostFn_t destroy, unsigned references,
                                              unsigned flags) {
  return forward(Needs::context, &Driver::cuUserObjectCreate, object, data, destroy, references,
                 flags);
}

cudaError_t berth_cudart_cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return forward(Needs::context, &Driver::cuUserObjectRetain, object, count);
}

cudaError_t berth_cudart_cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return forward(Needs::context, &Driver::cuUserObjectRelease, object, count);
}

cudaError_t berth_cudart_cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                   unsigned count, unsigned flags) {
  return forward(Needs::context, &Driver::cuGraphRetainUserObject, graph, object, count, flags);
}

cudaError_t berth_cudart_cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                    unsigned count) {
  return forward(Needs::context, &Driver::cuGraphReleaseUserObject, graph, object, count);
}

}  // namespace berth::cudart
