// SPDX-License-Identifier: Apache-2.0
#include "cudart/node_params.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "cudart/call.hpp"
#include "cudart/copies.hpp"
#include "cudart/kernel_handles.hpp"
#include "cudart/notices.hpp"

namespace berth::cudart {
namespace {

// Generic parameters of other kinds than copies and fills have the same layout in the driver.
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));
static_assert(offsetof(cudaKernelNodeParamsV2, extra) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS_v3, extra));
static_assert(sizeof(cudaHostNodeParamsV2) == sizeof(CUDA_HOST_NODE_PARAMS_v2));
static_assert(sizeof(cudaChildGraphNodeParams) == sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS));
static_assert(sizeof(cudaEventWaitNodeParams) == sizeof(CUDA_EVENT_WAIT_NODE_PARAMS));
static_assert(sizeof(cudaEventRecordNodeParams) == sizeof(CUDA_EVENT_RECORD_NODE_PARAMS));
static_assert(sizeof(cudaMemAllocNodeParamsV2) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2));
static_assert(sizeof(cudaMemFreeNodeParams) == sizeof(CUDA_MEM_FREE_NODE_PARAMS));

bool is_host(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST;
}

cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (is_host(from)) return is_host(to) ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return is_host(to) ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

/// The rows of a slice for the driver, which refuses a slice that they do not fit into. The height
/// of a copy of a single slice may be unset.
std::size_t slice_height(const cudaPitchedPtr& volume, const cudaPos& position,
                         const cudaExtent& extent) {
  const bool is_flat = extent.depth == 1 && position.z == 0;
  const bool is_set = position.y <= volume.ysize && extent.height <= volume.ysize - position.y;
  return is_flat && !is_set ? 0 : volume.ysize;
}

}  // namespace

cudaError_t to_driver(const cudaMemcpy3DParms* from, CUDA_MEMCPY3D& to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  if (from->srcArray != nullptr || from->dstArray != nullptr) {
    static std::atomic<bool> named = false;
    notice_once(named,
                "arrays are not supported: a node of a copy fails with "
                "cudaErrorNotSupported");
    return cudaErrorNotSupported;
  }
  if (!is_kind(from->kind)) return cudaErrorInvalidMemcpyDirection;
  to = {};
  to.srcMemoryType = source_type(from->kind);
  to.srcHost = from->srcPtr.ptr;
  to.srcDevice = address(from->srcPtr.ptr);
  to.srcPitch = from->srcPtr.pitch;
  to.srcHeight = slice_height(from->srcPtr, from->srcPos, from->extent);
  to.srcXInBytes = from->srcPos.x;
  to.srcY = from->srcPos.y;
  to.srcZ = from->srcPos.z;
  to.dstMemoryType = destination_type(from->kind);
  to.dstHost = from->dstPtr.ptr;
  to.dstDevice = address(from->dstPtr.ptr);
  to.dstPitch = from->dstPtr.pitch;
  to.dstHeight = slice_height(from->dstPtr, from->dstPos, from->extent);
  to.dstXInBytes = from->dstPos.x;
  to.dstY = from->dstPos.y;
  to.dstZ = from->dstPos.z;
  to.WidthInBytes = from->extent.width;
  to.Height = from->extent.height;
  to.Depth = from->extent.depth;
  return cudaSuccess;
}

cudaError_t to_driver(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                      CUDA_MEMCPY3D& to) {
  cudaMemcpy3DParms stretch{};
  stretch.srcPtr = {const_cast<void*>(source), bytes, bytes, 1};
  stretch.dstPtr = {destination, bytes, bytes, 1};
  stretch.extent = {bytes, 1, 1};
  stretch.kind = kind;
  return to_driver(&stretch, to);
}

cudaMemcpy3DParms to_runtime(const CUDA_MEMCPY3D& from) {
  cudaMemcpy3DParms to{};
  void* const source = is_host(from.srcMemoryType) ? const_cast<void*>(from.srcHost)
                                                   : reinterpret_cast<void*>(from.srcDevice);
  void* const destination =
      is_host(from.dstMemoryType) ? from.dstHost : reinterpret_cast<void*>(from.dstDevice);
  to.srcPtr = {source, from.srcPitch, from.srcPitch, from.srcHeight};
  to.srcPos = {from.srcXInBytes, from.srcY, from.srcZ};
  to.dstPtr = {destination, from.dstPitch, from.dstPitch, from.dstHeight};
  to.dstPos = {from.dstXInBytes, from.dstY, from.dstZ};
  to.extent = {from.WidthInBytes, from.Height, from.Depth};
  to.kind = kind_of(from.srcMemoryType, from.dstMemoryType);
  return to;
}

cudaError_t to_driver(const cudaMemsetParams* from, CUDA_MEMSET_NODE_PARAMS& to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  to = {.dst = address(from->dst),
        .pitch = from->pitch,
        .value = from->value,
        .elementSize = from->elementSize,
        .width = from->width,
        .height = from->height};
  return cudaSuccess;
}

cudaMemsetParams to_runtime(const CUDA_MEMSET_NODE_PARAMS& from) {
  return {.dst = reinterpret_cast<void*>(from.dst),
          .pitch = from.pitch,
          .value = from.value,
          .elementSize = from.elementSize,
          .width = from.width,
          .height = from.height};
}

cudaError_t to_driver(const Driver& driver, const cudaKernelNodeParams* from,
                      CUDA_KERNEL_NODE_PARAMS& to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  to = {.func = nullptr,
        .gridDimX = from->gridDim.x,
        .gridDimY = from->gridDim.y,
        .gridDimZ = from->gridDim.z,
        .blockDimX = from->blockDim.x,
        .blockDimY = from->blockDim.y,
        .blockDimZ = from->blockDim.z,
        .sharedMemBytes = from->sharedMemBytes,
        .kernelParams = from->kernelParams,
        .extra = from->extra,
        .kern = nullptr,
        .ctx = nullptr};
  return find_handle(driver, from->func, to.func);
}

cudaError_t to_runtime(const Driver& driver, const CUDA_KERNEL_NODE_PARAMS& from,
                       cudaKernelNodeParams& to) {
  cudaKernelNodeParams told{.func = nullptr,
                            .gridDim = {from.gridDimX, from.gridDimY, from.gridDimZ},
                            .blockDim = {from.blockDimX, from.blockDimY, from.blockDimZ},
                            .sharedMemBytes = from.sharedMemBytes,
                            .kernelParams = from.kernelParams,
                            .extra = from.extra};
  const CUfunction handle =
      from.func != nullptr ? from.func : reinterpret_cast<CUfunction>(from.kern);
  const cudaError_t found = find_kernel(driver, handle, told.func);
  if (found == cudaSuccess) to = told;
  return found;
}

cudaError_t to_driver(const Driver& driver, const cudaGraphNodeParams* from,
                      CUgraphNodeParams& to) {
  const bool is_clean = from != nullptr && from->reserved2 == 0 &&
                        std::all_of(std::begin(from->reserved0), std::end(from->reserved0),
                                    [](int reserved) { return reserved == 0; });
  if (!is_clean) return cudaErrorInvalidValue;
  std::memset(&to, 0, sizeof to);
  to.type = static_cast<CUgraphNodeType>(from->type);
  switch (from->type) {
    case cudaGraphNodeTypeMemcpy:
      if (from->memcpy.flags != 0) return cudaErrorInvalidValue;
      return to_driver(&from->memcpy.copyParams, to.memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      to.memset.dst = address(from->memset.dst);
      to.memset.pitch = from->memset.pitch;
      to.memset.value = from->memset.value;
      to.memset.elementSize = from->memset.elementSize;
      to.memset.width = from->memset.width;
      to.memset.height = from->memset.height;
      return cudaSuccess;
    case cudaGraphNodeTypeHost:
    case cudaGraphNodeTypeGraph:
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
      std::memcpy(to.reserved1, from->reserved1, sizeof to.reserved1);
      return cudaSuccess;
    case cudaGraphNodeTypeKernel:
      // The rest is laid out as in the driver.
      std::memcpy(to.reserved1, from->reserved1, sizeof to.reserved1);
      to.kernel.kern = nullptr;
      to.kernel.ctx = nullptr;
      return find_handle(driver, from->kernel.func, to.kernel.func);
    default:
      return cudaSuccess;
  }
}

}  // namespace berth::cudart
