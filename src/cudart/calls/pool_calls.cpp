// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Stream Ordered Memory Allocator".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {

// The pool structures have the same layout as those of the driver.
static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));

cudaError_t berth_cudart_cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                                  cudaMemAllocationType type) {
  return forward(Needs::driver, &Driver::cuMemGetDefaultMemPool, pool,
                 same<CUmemLocation*>(location), static_cast<CUmemAllocationType>(type));
}

cudaError_t berth_cudart_cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                           cudaMemAllocationType type) {
  return forward(Needs::driver, &Driver::cuMemGetMemPool, pool, same<CUmemLocation*>(location),
                 static_cast<CUmemAllocationType>(type));
}

cudaError_t berth_cudart_cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                                           cudaMemPool_t pool) {
  return forward(Needs::driver, &Driver::cuMemSetMemPool, same<CUmemLocation*>(location),
                 static_cast<CUmemAllocationType>(type), pool);
}

cudaError_t berth_cudart_cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemAllocAsync, same<CUdeviceptr*>(pointer), bytes,
                 stream);
}

cudaError_t berth_cudart_cudaMallocFromPoolAsync(void** pointer, std::size_t bytes,
                                                 cudaMemPool_t pool, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemAllocFromPoolAsync, same<CUdeviceptr*>(pointer),
                 bytes, pool, stream);
}

cudaError_t berth_cudart_cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemFreeAsync, address(pointer), stream);
}

cudaError_t berth_cudart_cudaMemPoolCreate(cudaMemPool_t* pool,
                                           const cudaMemPoolProps* properties) {
  return forward(Needs::driver, &Driver::cuMemPoolCreate, pool,
                 same<const CUmemPoolProps*>(properties));
}

cudaError_t berth_cudart_cudaMemPoolDestroy(cudaMemPool_t pool) {
  return forward(Needs::driver, &Driver::cuMemPoolDestroy, pool);
}

cudaError_t berth_cudart_cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                 void* value) {
  return forward(Needs::driver, &Driver::cuMemPoolSetAttribute, pool,
                 static_cast<CUmemPool_attribute>(attribute), value);
}

cudaError_t berth_cudart_cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                 void* value) {
  return forward(Needs::driver, &Driver::cuMemPoolGetAttribute, pool,
                 static_cast<CUmemPool_attribute>(attribute), value);
}

cudaError_t berth_cudart_cudaMemPoolSetAccess(cudaMemPool_t pool,
                                              const cudaMemAccessDesc* descriptions,
                                              std::size_t count) {
  return forward(Needs::driver, &Driver::cuMemPoolSetAccess, pool,
                 same<const CUmemAccessDesc*>(descriptions), count);
}

cudaError_t berth_cudart_cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                              cudaMemLocation* location) {
  return forward(Needs::driver, &Driver::cuMemPoolGetAccess, same<CUmemAccess_flags*>(flags), pool,
                 same<CUmemLocation*>(location));
}

cudaError_t berth_cudart_cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes_kept) {
  return forward(Needs::driver, &Driver::cuMemPoolTrimTo, pool, bytes_kept);
}

cudaError_t berth_cudart_cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                                            cudaMemAllocationHandleType type,
                                                            unsigned flags) {
  return forward(Needs::driver, &Driver::cuMemPoolExportToShareableHandle, handle, pool,
                 static_cast<CUmemAllocationHandleType>(type), cuuint64_t{flags});
}

cudaError_t berth_cudart_cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                              cudaMemAllocationHandleType type,
                                                              unsigned flags) {
  return forward(Needs::driver, &Driver::cuMemPoolImportFromShareableHandle, pool, handle,
                 static_cast<CUmemAllocationHandleType>(type), cuuint64_t{flags});
}

cudaError_t berth_cudart_cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer) {
  return forward(Needs::driver, &Driver::cuMemPoolExportPointer,
                 same<CUmemPoolPtrExportData*>(data), address(pointer));
}

cudaError_t berth_cudart_cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool,
                                                  cudaMemPoolPtrExportData* data) {
  return forward(Needs::driver, &Driver::cuMemPoolImportPointer, same<CUdeviceptr*>(pointer), pool,
                 same<CUmemPoolPtrExportData*>(data));
}

}  // namespace berth::cudart
