// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, cudaMemcpy3D and cudaMemcpy3DPeer. Arrays are not supported.
#include <atomic>

#include "cudart/call.hpp"
#include "cudart/copies.hpp"
#include "cudart/functions.hpp"
#include "cudart/notices.hpp"
#include "cudart/volumes.hpp"

namespace berth::cudart {
namespace {

cudaError_t copy_volume(const Driver& driver, const Side& to, const Side& from,
                        const cudaExtent& extent, cudaMemcpyKind kind, Order order) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return cudaSuccess;
  if (!to.holds(extent) || !from.holds(extent)) return cudaErrorInvalidValue;
  const bool is_one = to.volume.ysize == extent.height && from.volume.ysize == extent.height;
  return to_error(for_each_stretch(extent, is_one, [&](std::size_t z, std::size_t rows) {
    return copy_rows(
        driver,
        {to.slice(z), to.volume.pitch, from.slice(z), from.volume.pitch, extent.width, rows}, kind,
        order);
  }));
}

template <class Parameters>
cudaError_t copy_volume(const Parameters* copy, cudaMemcpyKind kind, Order order) {
  return call(Needs::context, [&](const Driver& driver) {
    if (copy == nullptr) return cudaErrorInvalidValue;
    if (copy->srcArray != nullptr || copy->dstArray != nullptr) {
      static std::atomic<bool> named = false;
      notice_once(named, "arrays are not supported: a copy fails with cudaErrorNotSupported");
      return cudaErrorNotSupported;
    }
    return copy_volume(driver, {copy->dstPtr, copy->dstPos}, {copy->srcPtr, copy->srcPos},
                       copy->extent, kind, order);
  });
}

cudaMemcpyKind kind_of(const cudaMemcpy3DParms* copy) {
  return copy == nullptr ? cudaMemcpyDefault : copy->kind;
}

}  // namespace

cudaError_t berth_cudart_cudaMemcpy3D(const cudaMemcpy3DParms* copy) {
  return copy_volume(copy, kind_of(copy), Order::now());
}

cudaError_t berth_cudart_cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t stream) {
  return copy_volume(copy, kind_of(copy), Order::on(stream));
}

// The addresses identify the devices.
cudaError_t berth_cudart_cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* copy) {
  return copy_volume(copy, cudaMemcpyDefault, Order::now());
}

cudaError_t berth_cudart_cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* copy,
                                               cudaStream_t stream) {
  return copy_volume(copy, cudaMemcpyDefault, Order::on(stream));
}

}  // namespace berth::cudart
