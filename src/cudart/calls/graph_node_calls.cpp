// SPDX-License-Identifier: Apache-2.0
// Graph nodes added by a program.
// Source: CUDA Runtime API, "Graph Management".
#include "cudart/call.hpp"
#include "cudart/copies.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

/// The driver needs the context in which a node runs: the current one.
CUcontext current_context(const Driver& driver) {
  CUcontext context = nullptr;
  driver.cuCtxGetCurrent(&context);
  return context;
}

}  // namespace

cudaError_t berth_cudart_cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  std::size_t count, void* destination,
                                                  const void* source, std::size_t bytes,
                                                  cudaMemcpyKind kind) {
  return call(Needs::context, [&](const Driver& driver) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = address(source);
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.dstDevice = address(destination);
    copy.WidthInBytes = bytes;
    copy.Height = 1;
    copy.Depth = 1;
    return to_error(driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy,
                                                current_context(driver)));
  });
}

cudaError_t berth_cudart_cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                std::size_t count,
                                                const cudaMemsetParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS fill{};
    fill.dst = address(parameters->dst);
    fill.pitch = parameters->pitch;
    fill.value = parameters->value;
    fill.elementSize = parameters->elementSize;
    fill.width = parameters->width;
    fill.height = parameters->height;
    return driver.cuGraphAddMemsetNode(node, graph, dependencies, count, &fill,
                                       current_context(driver));
  });
}

cudaError_t berth_cudart_cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t* dependencies,
                                              std::size_t count,
                                              const cudaHostNodeParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_HOST_NODE_PARAMS host{};
    host.fn = parameters->fn;
    host.userData = parameters->userData;
    return driver.cuGraphAddHostNode(node, graph, dependencies, count, &host);
  });
}

cudaError_t berth_cudart_cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     std::size_t count, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphAddEventRecordNode, node, graph, dependencies,
                 count, event);
}

cudaError_t berth_cudart_cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   std::size_t count, cudaEvent_t event) {
  return forward(Needs::context, &Driver::cuGraphAddEventWaitNode, node, graph, dependencies, count,
                 event);
}

}  // namespace berth::cudart
