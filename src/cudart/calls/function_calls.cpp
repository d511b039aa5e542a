// SPDX-License-Identifier: Apache-2.0
// Attributes and occupancy of kernels, as the driver has them.
// Source: CUDA Runtime API, "Execution Control", "Occupancy".
#include "cudart/functions.hpp"
#include "cudart/kernel_handles.hpp"
#include "cudart/modules.hpp"

namespace berth::cudart {
namespace {

/// Implements a call about a registered kernel.
template <class Body>
cudaError_t about(const void* function, Body&& body) {
  return call(Needs::context, [&](const Driver&) {
    const Kernel* kernel = modules().find_kernel(function);
    return kernel == nullptr ? cudaErrorInvalidDeviceFunction : body(*kernel);
  });
}

cudaError_t find_kernel(cudaKernel_t* out, const void* function) {
  return about(function, [&](const Kernel& kernel) {
    if (out == nullptr) return cudaErrorInvalidValue;
    *out = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(&kernel));
    return cudaSuccess;
  });
}

CUresult read_attributes(const Driver& driver, CUfunction handle, cudaFuncAttributes& read) {
  CUresult result = CUDA_SUCCESS;
  const auto get = [&](CUfunction_attribute attribute) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = driver.cuFuncGetAttribute(&value, attribute, handle);
    return value;
  };
  read = cudaFuncAttributes{};
  read.sharedSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  read.constSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
  read.localSizeBytes = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  read.maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  read.numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  read.ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
  read.binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
  read.cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
  read.maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  read.preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  read.clusterDimMustBeSet = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
  read.requiredClusterWidth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  read.requiredClusterHeight = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  read.requiredClusterDepth = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  read.clusterSchedulingPolicyPreference =
      get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  read.nonPortableClusterSizeAllowed = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  return result;
}

}  // namespace

cudaError_t berth_cudart_cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return find_kernel(kernel, function);
}

cudaError_t berth_cudart___cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return find_kernel(kernel, function);
}

cudaError_t berth_cudart_cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  return about(function, [&](const Kernel& kernel) {
    const auto by_name = loaded_driver()->kernel_by_name;
    if (out == nullptr) return cudaErrorInvalidValue;
    if (by_name == nullptr) return cudaErrorNotSupported;
    *out = by_name(kernel.name.c_str());
    return cudaSuccess;
  });
}

cudaError_t berth_cudart_cudaFuncGetName(const char** name, const void* function) {
  return about(function, [&](const Kernel& kernel) {
    if (name == nullptr) return cudaErrorInvalidValue;
    *name = kernel.name.c_str();
    return cudaSuccess;
  });
}

cudaError_t berth_cudart_cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                               const void* function) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    return attributes == nullptr ? CUDA_ERROR_INVALID_VALUE
                                 : read_attributes(driver, handle, *attributes);
  });
}

// Driver and runtime share the numbers of attributes.
cudaError_t berth_cudart_cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                              int value) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    return driver.cuFuncSetAttribute(handle, static_cast<CUfunction_attribute>(attribute), value);
  });
}

cudaError_t berth_cudart_cudaFuncSetCacheConfig(const void* function, cudaFuncCache preference) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    return driver.cuFuncSetCacheConfig(handle, static_cast<CUfunc_cache>(preference));
  });
}

cudaError_t berth_cudart_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                       const void* function,
                                                                       int threads,
                                                                       std::size_t shared_bytes) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle, threads,
                                                              shared_bytes);
  });
}

cudaError_t berth_cudart_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, std::size_t shared_bytes, unsigned flags) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads,
                                                                       shared_bytes, flags);
  });
}

cudaError_t berth_cudart_cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* shared_bytes,
                                                                   const void* function, int blocks,
                                                                   int threads) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    return driver.cuOccupancyAvailableDynamicSMemPerBlock(shared_bytes, handle, blocks, threads);
  });
}

cudaError_t berth_cudart_cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                        const cudaLaunchConfig_t* config) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig converted = to_driver(*config);
    return driver.cuOccupancyMaxActiveClusters(clusters, handle, &converted);
  });
}

cudaError_t berth_cudart_cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                              const cudaLaunchConfig_t* config) {
  return call_about(function, [&](const Driver& driver, CUfunction handle) {
    if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig converted = to_driver(*config);
    return driver.cuOccupancyMaxPotentialClusterSize(size, handle, &converted);
  });
}

cudaChannelFormatDesc berth_cudart_cudaCreateChannelDesc(int x, int y, int z, int w,
                                                         cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

}  // namespace berth::cudart
