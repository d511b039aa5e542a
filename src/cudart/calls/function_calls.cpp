// SPDX-License-Identifier: Apache-2.0
// Attributes of kernels. Their code is not read, so these are the limits of the device.
// Source: CUDA Runtime API, "Execution Control", "Occupancy".
#include <algorithm>

#include "cudart/call.hpp"
#include "cudart/functions.hpp"
#include "cudart/modules.hpp"

namespace berth::cudart {
namespace {

int attribute_of(const Driver& driver, CUdevice_attribute attribute) {
  int device = 0;
  int value = 0;
  const bool is_known = current_device(driver, device) == CUDA_SUCCESS &&
                        driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS;
  return is_known ? value : 0;
}

/// Implements a call about the kernel `function`.
template <class Body>
cudaError_t about(const void* function, Body&& body) {
  return call(Needs::context, [&](const Driver& driver) {
    const Kernel* kernel = modules().find_kernel(function);
    return kernel == nullptr ? cudaErrorInvalidDeviceFunction : to_error(body(driver, *kernel));
  });
}

cudaError_t find_kernel(cudaKernel_t* out, const void* function) {
  return about(function, [&](const Driver&, const Kernel& kernel) {
    if (out == nullptr) return cudaErrorInvalidValue;
    *out = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(&kernel));
    return cudaSuccess;
  });
}

/// The blocks of a kernel that uses no registers, and only the shared memory of its launch.
cudaError_t count_blocks(int* blocks, const void* function, int threads, std::size_t shared_bytes) {
  return about(function, [&](const Driver& driver, const Kernel&) {
    const int threads_max = attribute_of(driver, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (blocks == nullptr || threads <= 0 || threads > threads_max) return cudaErrorInvalidValue;
    const int warp = std::max(1, attribute_of(driver, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
    const int in_warps = (threads + warp - 1) / warp * warp;
    *blocks = std::min(
        attribute_of(driver, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
        attribute_of(driver, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / in_warps);
    const auto reserved = static_cast<std::size_t>(
        attribute_of(driver, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
    const auto shared_max = static_cast<std::size_t>(
        attribute_of(driver, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
    if (shared_bytes + reserved != 0)
      *blocks = std::min(*blocks, static_cast<int>(shared_max / (shared_bytes + reserved)));
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t berth_cudart_cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return find_kernel(kernel, function);
}

cudaError_t berth_cudart___cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return find_kernel(kernel, function);
}

cudaError_t berth_cudart_cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  return about(function, [&](const Driver&, const Kernel& kernel) {
    const auto by_name = loaded_driver()->kernel_by_name;
    if (out == nullptr) return cudaErrorInvalidValue;
    if (by_name == nullptr) return cudaErrorNotSupported;
    *out = by_name(kernel.name.c_str());
    return cudaSuccess;
  });
}

cudaError_t berth_cudart_cudaFuncGetName(const char** name, const void* function) {
  return about(function, [&](const Driver&, const Kernel& kernel) {
    if (name == nullptr) return cudaErrorInvalidValue;
    *name = kernel.name.c_str();
    return cudaSuccess;
  });
}

cudaError_t berth_cudart_cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                               const void* function) {
  return about(function, [&](const Driver& driver, const Kernel&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    const int version = 10 * attribute_of(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                        attribute_of(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    *attributes = cudaFuncAttributes{};
    attributes->maxThreadsPerBlock =
        attribute_of(driver, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    attributes->maxDynamicSharedSizeBytes =
        attribute_of(driver, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    attributes->ptxVersion = version;
    attributes->binaryVersion = version;
    return cudaSuccess;
  });
}

// Checks the attribute and ignores it, because it only affects how a kernel runs.
cudaError_t berth_cudart_cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                              int) {
  return about(function, [&](const Driver&, const Kernel&) {
    const bool is_known = attribute >= cudaFuncAttributeMaxDynamicSharedMemorySize &&
                          attribute < cudaFuncAttributeMax;
    return is_known ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t berth_cudart_cudaFuncSetCacheConfig(const void* function, cudaFuncCache preference) {
  return about(function, [&](const Driver&, const Kernel&) {
    const bool is_known =
        preference >= cudaFuncCachePreferNone && preference <= cudaFuncCachePreferEqual;
    return is_known ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t berth_cudart_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                       const void* function,
                                                                       int threads,
                                                                       std::size_t shared_bytes) {
  return count_blocks(blocks, function, threads, shared_bytes);
}

cudaError_t berth_cudart_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, std::size_t shared_bytes, unsigned flags) {
  if (flags > cudaOccupancyDisableCachingOverride) return this_thread().note(cudaErrorInvalidValue);
  return count_blocks(blocks, function, threads, shared_bytes);
}

cudaChannelFormatDesc berth_cudart_cudaCreateChannelDesc(int x, int y, int z, int w,
                                                         cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

}  // namespace berth::cudart
