// SPDX-License-Identifier: Apache-2.0
// Graph nodes of kernels.
// Source: CUDA Runtime API, "Graph Management".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/node_params.hpp"

namespace berth::cudart {
namespace {

static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue));

/// Calls `body(const Driver&, const CUDA_KERNEL_NODE_PARAMS*)` with the converted parameters.
template <class Body>
cudaError_t with_kernel(const cudaKernelNodeParams* parameters, Body&& body) {
  return call(Needs::context, [&](const Driver& driver) {
    CUDA_KERNEL_NODE_PARAMS converted;
    const cudaError_t accepted = to_driver(driver, parameters, converted);
    return accepted == cudaSuccess ? to_error(body(driver, &converted)) : accepted;
  });
}

}  // namespace

cudaError_t berth_cudart_cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                std::size_t count,
                                                const cudaKernelNodeParams* parameters) {
  return with_kernel(
      parameters, [&](const Driver& driver, const CUDA_KERNEL_NODE_PARAMS* converted) {
        return driver.cuGraphAddKernelNode(node, graph, dependencies, count, converted);
      });
}

cudaError_t berth_cudart_cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                                      cudaKernelNodeParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    CUDA_KERNEL_NODE_PARAMS told;
    const CUresult known = driver.cuGraphKernelNodeGetParams(node, &told);
    return known == CUDA_SUCCESS ? to_runtime(driver, told, *parameters) : to_error(known);
  });
}

cudaError_t berth_cudart_cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                      const cudaKernelNodeParams* parameters) {
  return with_kernel(parameters,
                     [&](const Driver& driver, const CUDA_KERNEL_NODE_PARAMS* converted) {
                       return driver.cuGraphKernelNodeSetParams(node, converted);
                     });
}

cudaError_t berth_cudart_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec,
                                                          cudaGraphNode_t node,
                                                          const cudaKernelNodeParams* parameters) {
  return with_kernel(parameters,
                     [&](const Driver& driver, const CUDA_KERNEL_NODE_PARAMS* converted) {
                       return driver.cuGraphExecKernelNodeSetParams(exec, node, converted);
                     });
}

// Driver and runtime share the numbers and the layout of attributes.
cudaError_t berth_cudart_cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node,
                                                         cudaLaunchAttributeID attribute,
                                                         cudaLaunchAttributeValue* value) {
  return forward(Needs::context, &Driver::cuGraphKernelNodeGetAttribute, node,
                 static_cast<CUlaunchAttributeID>(attribute), same<CUlaunchAttributeValue*>(value));
}

cudaError_t berth_cudart_cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node,
                                                         cudaLaunchAttributeID attribute,
                                                         const cudaLaunchAttributeValue* value) {
  return forward(Needs::context, &Driver::cuGraphKernelNodeSetAttribute, node,
                 static_cast<CUlaunchAttributeID>(attribute),
                 same<const CUlaunchAttributeValue*>(value));
}

cudaError_t berth_cudart_cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t destination,
                                                           cudaGraphNode_t source) {
  return forward(Needs::context, &Driver::cuGraphKernelNodeCopyAttributes, destination, source);
}

}  // namespace berth::cudart
