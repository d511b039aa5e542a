// SPDX-License-Identifier: Apache-2.0
#include "cudart/copies.hpp"

#include "cudart/call.hpp"

namespace berth::cudart {
namespace {

CUresult copy_now(const Driver& driver, void* destination, const void* source, std::size_t bytes,
                  cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoD(address(destination), source, bytes);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoH(destination, address(source), bytes);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoD(address(destination), address(source), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      break;
  }
  return driver.cuMemcpy(address(destination), address(source), bytes);
}

CUresult copy_on(const Driver& driver, void* destination, const void* source, std::size_t bytes,
                 cudaMemcpyKind kind, CUstream stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoDAsync(address(destination), source, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoHAsync(destination, address(source), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoDAsync(address(destination), address(source), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      break;
  }
  return driver.cuMemcpyAsync(address(destination), address(source), bytes, stream);
}

}  // namespace

CUmemorytype source_type(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST
                                                                        : CU_MEMORYTYPE_DEVICE;
}

CUmemorytype destination_type(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST
                                                                        : CU_MEMORYTYPE_DEVICE;
}

bool is_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

CUresult copy(const Driver& driver, void* destination, const void* source, std::size_t bytes,
              cudaMemcpyKind kind, Order order) {
  return order.mode == Mode::synchronous
             ? copy_now(driver, destination, source, bytes, kind)
             : copy_on(driver, destination, source, bytes, kind, order.stream);
}

CUresult copy_rows(const Driver& driver, const Rows& rows, cudaMemcpyKind kind, Order order) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = source_type(kind);
  copy.srcHost = rows.source;
  copy.srcDevice = address(rows.source);
  copy.srcPitch = rows.source_pitch;
  copy.dstMemoryType = destination_type(kind);
  copy.dstHost = rows.destination;
  copy.dstDevice = address(rows.destination);
  copy.dstPitch = rows.destination_pitch;
  copy.WidthInBytes = rows.width;
  copy.Height = rows.rows;
  return order.mode == Mode::synchronous ? driver.cuMemcpy2DUnaligned(&copy)
                                         : driver.cuMemcpy2DAsync(&copy, order.stream);
}

}  // namespace berth::cudart
