// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, cudaMemset and its variants.
#include "cudart/call.hpp"
#include "cudart/copies.hpp"
#include "cudart/functions.hpp"
#include "cudart/volumes.hpp"

namespace berth::cudart {
namespace {

/// The byte that memset() writes for `value`.
unsigned char byte_of(int value) {
  return static_cast<unsigned char>(value);
}

CUresult fill_rows(const Driver& driver, void* start, std::size_t pitch, int value,
                   std::size_t width, std::size_t rows, Order order) {
  return order.mode == Mode::synchronous
             ? driver.cuMemsetD2D8(address(start), pitch, byte_of(value), width, rows)
             : driver.cuMemsetD2D8Async(address(start), pitch, byte_of(value), width, rows,
                                        order.stream);
}

cudaError_t fill_volume(const cudaPitchedPtr& volume, int value, const cudaExtent& extent,
                        Order order) {
  return call(Needs::context, [&](const Driver& driver) {
    if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
    const Side side{volume, cudaPos{}};
    if (!side.holds(extent)) return CUDA_ERROR_INVALID_VALUE;
    const bool is_one = volume.ysize == extent.height;
    return for_each_stretch(extent, is_one, [&](std::size_t z, std::size_t rows) {
      return fill_rows(driver, side.slice(z), volume.pitch, value, extent.width, rows, order);
    });
  });
}

}  // namespace

cudaError_t berth_cudart_cudaMemset(void* pointer, int value, std::size_t bytes) {
  return forward(Needs::context, &Driver::cuMemsetD8, address(pointer), byte_of(value), bytes);
}

cudaError_t berth_cudart_cudaMemsetAsync(void* pointer, int value, std::size_t bytes,
                                         cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemsetD8Async, address(pointer), byte_of(value), bytes,
                 stream);
}

cudaError_t berth_cudart_cudaMemset2D(void* pointer, std::size_t pitch, int value,
                                      std::size_t width, std::size_t rows) {
  return call(Needs::context, [&](const Driver& driver) {
    return fill_rows(driver, pointer, pitch, value, width, rows, Order::now());
  });
}

cudaError_t berth_cudart_cudaMemset2DAsync(void* pointer, std::size_t pitch, int value,
                                           std::size_t width, std::size_t rows,
                                           cudaStream_t stream) {
  return call(Needs::context, [&](const Driver& driver) {
    return fill_rows(driver, pointer, pitch, value, width, rows, Order::on(stream));
  });
}

cudaError_t berth_cudart_cudaMemset3D(cudaPitchedPtr volume, int value, cudaExtent extent) {
  return fill_volume(volume, value, extent, Order::now());
}

cudaError_t berth_cudart_cudaMemset3DAsync(cudaPitchedPtr volume, int value, cudaExtent extent,
                                           cudaStream_t stream) {
  return fill_volume(volume, value, extent, Order::on(stream));
}

}  // namespace berth::cudart
