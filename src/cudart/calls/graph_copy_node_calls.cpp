// SPDX-License-Identifier: Apache-2.0
// Graph nodes of copies and fills.
// Source: CUDA Runtime API, "Graph Management".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/node_params.hpp"
#include "cudart/symbols.hpp"

namespace berth::cudart {
namespace {

/// The driver needs the context in which a node runs: the current one.
CUcontext current_context(const Driver& driver) {
  CUcontext context = nullptr;
  driver.cuCtxGetCurrent(&context);
  return context;
}

struct Addition {
  cudaGraphNode_t* node;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  std::size_t count;
};

/// Calls `use` with the parameters of the driver that `read` fills.
template <class Params, class Read, class Use>
cudaError_t with_params(Read&& read, Use&& use) {
  return call(Needs::context, [&](const Driver& driver) {
    Params params{};
    const cudaError_t accepted = read(driver, params);
    return accepted == cudaSuccess ? to_error(use(driver, &params)) : accepted;
  });
}

template <class Read>
cudaError_t add_copy(const Addition& addition, Read&& read) {
  return with_params<CUDA_MEMCPY3D>(read, [&](const Driver& driver, const CUDA_MEMCPY3D* copy) {
    return driver.cuGraphAddMemcpyNode(addition.node, addition.graph, addition.dependencies,
                                       addition.count, copy, current_context(driver));
  });
}

template <class Read>
cudaError_t set_copy(cudaGraphNode_t node, Read&& read) {
  return with_params<CUDA_MEMCPY3D>(read, [&](const Driver& driver, const CUDA_MEMCPY3D* copy) {
    return driver.cuGraphMemcpyNodeSetParams(node, copy);
  });
}

template <class Read>
cudaError_t set_copy(cudaGraphExec_t exec, cudaGraphNode_t node, Read&& read) {
  return with_params<CUDA_MEMCPY3D>(read, [&](const Driver& driver, const CUDA_MEMCPY3D* copy) {
    return driver.cuGraphExecMemcpyNodeSetParams(exec, node, copy, current_context(driver));
  });
}

auto reading(const cudaMemcpy3DParms* parameters) {
  return [parameters](const Driver&, CUDA_MEMCPY3D& copy) { return to_driver(parameters, copy); };
}

auto reading(const cudaMemsetParams* parameters) {
  return [parameters](const Driver&, CUDA_MEMSET_NODE_PARAMS& fill) {
    return to_driver(parameters, fill);
  };
}

auto reading(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  return [=](const Driver&, CUDA_MEMCPY3D& copy) {
    return to_driver(destination, source, bytes, kind, copy);
  };
}

auto reading_to(const Part& part, const void* source, cudaMemcpyKind kind) {
  return [=](const Driver& driver, CUDA_MEMCPY3D& copy) {
    if (!is_to_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
    char* start = nullptr;
    const cudaError_t found = find(driver, part, start);
    return found == cudaSuccess ? to_driver(start, source, part.bytes, kind, copy) : found;
  };
}

auto reading_from(void* destination, const Part& part, cudaMemcpyKind kind) {
  return [=](const Driver& driver, CUDA_MEMCPY3D& copy) {
    if (!is_from_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
    char* start = nullptr;
    const cudaError_t found = find(driver, part, start);
    return found == cudaSuccess ? to_driver(destination, start, part.bytes, kind, copy) : found;
  };
}

}  // namespace

cudaError_t berth_cudart_cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                std::size_t count,
                                                const cudaMemcpy3DParms* parameters) {
  return add_copy({node, graph, dependencies, count}, reading(parameters));
}

cudaError_t berth_cudart_cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  std::size_t count, void* destination,
                                                  const void* source, std::size_t bytes,
                                                  cudaMemcpyKind kind) {
  return add_copy({node, graph, dependencies, count}, reading(destination, source, bytes, kind));
}

cudaError_t berth_cudart_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                      cudaMemcpy3DParms* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy{};
    const CUresult result = driver.cuGraphMemcpyNodeGetParams(node, &copy);
    if (result == CUDA_SUCCESS) *parameters = to_runtime(copy);
    return result;
  });
}

cudaError_t berth_cudart_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                      const cudaMemcpy3DParms* parameters) {
  return set_copy(node, reading(parameters));
}

cudaError_t berth_cudart_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* destination,
                                                        const void* source, std::size_t bytes,
                                                        cudaMemcpyKind kind) {
  return set_copy(node, reading(destination, source, bytes, kind));
}

cudaError_t berth_cudart_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec,
                                                          cudaGraphNode_t node,
                                                          const cudaMemcpy3DParms* parameters) {
  return set_copy(exec, node, reading(parameters));
}

cudaError_t berth_cudart_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec,
                                                            cudaGraphNode_t node, void* destination,
                                                            const void* source, std::size_t bytes,
                                                            cudaMemcpyKind kind) {
  return set_copy(exec, node, reading(destination, source, bytes, kind));
}

cudaError_t berth_cudart_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                        const cudaGraphNode_t* dependencies,
                                                        std::size_t count, const void* symbol,
                                                        const void* source, std::size_t bytes,
                                                        std::size_t offset, cudaMemcpyKind kind) {
  return add_copy({node, graph, dependencies, count},
                  reading_to({symbol, offset, bytes}, source, kind));
}

cudaError_t berth_cudart_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                          const cudaGraphNode_t* dependencies,
                                                          std::size_t count, void* destination,
                                                          const void* symbol, std::size_t bytes,
                                                          std::size_t offset, cudaMemcpyKind kind) {
  return add_copy({node, graph, dependencies, count},
                  reading_from(destination, {symbol, offset, bytes}, kind));
}

cudaError_t berth_cudart_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node,
                                                              const void* symbol,
                                                              const void* source, std::size_t bytes,
                                                              std::size_t offset,
                                                              cudaMemcpyKind kind) {
  return set_copy(node, reading_to({symbol, offset, bytes}, source, kind));
}

cudaError_t berth_cudart_cudaGraphMemcpyNodeSetParamsFromSymbol(
    cudaGraphNode_t node, void* destination, const void* symbol, std::size_t bytes,
    std::size_t offset, cudaMemcpyKind kind) {
  return set_copy(node, reading_from(destination, {symbol, offset, bytes}, kind));
}

cudaError_t berth_cudart_cudaGraphExecMemcpyNodeSetParamsToSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* source,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return set_copy(exec, node, reading_to({symbol, offset, bytes}, source, kind));
}

cudaError_t berth_cudart_cudaGraphExecMemcpyNodeSetParamsFromSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, void* destination, const void* symbol,
    std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
  return set_copy(exec, node, reading_from(destination, {symbol, offset, bytes}, kind));
}

cudaError_t berth_cudart_cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                std::size_t count,
                                                const cudaMemsetParams* parameters) {
  return with_params<CUDA_MEMSET_NODE_PARAMS>(
      reading(parameters), [&](const Driver& driver, const CUDA_MEMSET_NODE_PARAMS* fill) {
        return driver.cuGraphAddMemsetNode(node, graph, dependencies, count, fill,
                                           current_context(driver));
      });
}

cudaError_t berth_cudart_cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                      cudaMemsetParams* parameters) {
  return call(Needs::context, [&](const Driver& driver) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS fill{};
    const CUresult result = driver.cuGraphMemsetNodeGetParams(node, &fill);
    if (result == CUDA_SUCCESS) *parameters = to_runtime(fill);
    return result;
  });
}

cudaError_t berth_cudart_cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                      const cudaMemsetParams* parameters) {
  return with_params<CUDA_MEMSET_NODE_PARAMS>(
      reading(parameters), [&](const Driver& driver, const CUDA_MEMSET_NODE_PARAMS* fill) {
        return driver.cuGraphMemsetNodeSetParams(node, fill);
      });
}

cudaError_t berth_cudart_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec,
                                                          cudaGraphNode_t node,
                                                          const cudaMemsetParams* parameters) {
  return with_params<CUDA_MEMSET_NODE_PARAMS>(
      reading(parameters), [&](const Driver& driver, const CUDA_MEMSET_NODE_PARAMS* fill) {
        return driver.cuGraphExecMemsetNodeSetParams(exec, node, fill, current_context(driver));
      });
}

}  // namespace berth::cudart
