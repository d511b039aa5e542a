// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Memory Management": allocations of devices and of the host.
#include <limits>

#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

/// The element size for cuMemAllocPitch: the widest access, to which every row is aligned.
constexpr unsigned kElementBytes = 16;

CUresult allocate_rows(const Driver& driver, void** pointer, std::size_t* pitch, std::size_t width,
                       std::size_t rows) {
  if (pointer == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (width == 0 || rows == 0) {
    *pointer = nullptr;
    *pitch = 0;
    return CUDA_SUCCESS;
  }
  return driver.cuMemAllocPitch(same<CUdeviceptr*>(pointer), pitch, width, rows, kElementBytes);
}

cudaError_t allocate_host(void** pointer, std::size_t bytes, unsigned flags) {
  return call(Needs::context, [&](const Driver& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : driver.cuMemHostAlloc(pointer, bytes, flags);
  });
}

}  // namespace

// An allocation of 0 bytes returns null without an error.
cudaError_t berth_cudart_cudaMalloc(void** pointer, std::size_t bytes) {
  return call(Needs::context, [&](const Driver& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pointer = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : driver.cuMemAlloc(same<CUdeviceptr*>(pointer), bytes);
  });
}

cudaError_t berth_cudart_cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                         std::size_t rows) {
  return call(Needs::context, [&](const Driver& driver) {
    return allocate_rows(driver, pointer, pitch, width, rows);
  });
}

cudaError_t berth_cudart_cudaMalloc3D(cudaPitchedPtr* volume, cudaExtent extent) {
  return call(Needs::context, [&](const Driver& driver) {
    if (volume == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *volume = {.ptr = nullptr, .pitch = 0, .xsize = extent.width, .ysize = extent.height};
    std::size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate_rows(driver, &volume->ptr, &volume->pitch, extent.width, rows);
  });
}

cudaError_t berth_cudart_cudaMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
  return call(Needs::context, [&](const Driver& driver) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return driver.cuMemAllocManaged(same<CUdeviceptr*>(pointer), bytes, flags);
  });
}

cudaError_t berth_cudart_cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate_host(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t berth_cudart_cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return allocate_host(pointer, bytes, flags);
}

cudaError_t berth_cudart_cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return forward(Needs::context, &Driver::cuMemHostRegister, pointer, bytes, flags);
}

cudaError_t berth_cudart_cudaHostUnregister(void* pointer) {
  return forward(Needs::context, &Driver::cuMemHostUnregister, pointer);
}

cudaError_t berth_cudart_cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return forward(Needs::context, &Driver::cuMemHostGetDevicePointer, same<CUdeviceptr*>(device),
                 host, flags);
}

cudaError_t berth_cudart_cudaHostGetFlags(unsigned* flags, void* host) {
  return forward(Needs::context, &Driver::cuMemHostGetFlags, flags, host);
}

// Freeing a null pointer only initializes the runtime, which is why programs call cudaFree(0).
cudaError_t berth_cudart_cudaFree(void* pointer) {
  return call(Needs::context, [&](const Driver& driver) {
    return pointer == nullptr ? CUDA_SUCCESS : driver.cuMemFree(address(pointer));
  });
}

cudaError_t berth_cudart_cudaFreeHost(void* pointer) {
  return call(Needs::context, [&](const Driver& driver) {
    return pointer == nullptr ? CUDA_SUCCESS : driver.cuMemFreeHost(pointer);
  });
}

cudaError_t berth_cudart_cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return forward(Needs::context, &Driver::cuMemGetInfo, free, total);
}

}  // namespace berth::cudart
