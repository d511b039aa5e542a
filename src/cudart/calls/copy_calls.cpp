// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Memory Management": linear, pitched and batched copies.
#include "cudart/call.hpp"
#include "cudart/copies.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

cudaError_t copy_stretch(void* destination, const void* source, std::size_t bytes,
                         cudaMemcpyKind kind, Order order) {
  return call(Needs::context, [&](const Driver& driver) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    return to_error(copy(driver, destination, source, bytes, kind, order));
  });
}

cudaError_t copy_2d(const Rows& rows, cudaMemcpyKind kind, Order order) {
  return call(Needs::context, [&](const Driver& driver) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    const bool is_pitched = rows.width <= rows.destination_pitch && rows.width <= rows.source_pitch;
    if (!is_pitched) return cudaErrorInvalidPitchValue;
    return to_error(copy_rows(driver, rows, kind, order));
  });
}

/// Both contexts of a copy between devices.
CUresult peer_contexts(const Driver& driver, int destination_device, int source_device,
                       CUcontext& destination, CUcontext& source) {
  for (const int device : {destination_device, source_device}) {
    const CUresult accepted = check_device(driver, device);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  const CUresult result = primary_context(driver, destination_device, destination);
  return result == CUDA_SUCCESS ? primary_context(driver, source_device, source) : result;
}

}  // namespace

cudaError_t berth_cudart_cudaMemcpy(void* destination, const void* source, std::size_t bytes,
                                    cudaMemcpyKind kind) {
  return copy_stretch(destination, source, bytes, kind, Order::now());
}

cudaError_t berth_cudart_cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_stretch(destination, source, bytes, kind, Order::on(stream));
}

cudaError_t berth_cudart_cudaMemcpyPeer(void* destination, int destination_device,
                                        const void* source, int source_device, std::size_t bytes) {
  return call(Needs::context, [&](const Driver& driver) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    const CUresult known = peer_contexts(driver, destination_device, source_device, to, from);
    if (known != CUDA_SUCCESS) return known;
    return driver.cuMemcpyPeer(address(destination), to, address(source), from, bytes);
  });
}

cudaError_t berth_cudart_cudaMemcpyPeerAsync(void* destination, int destination_device,
                                             const void* source, int source_device,
                                             std::size_t bytes, cudaStream_t stream) {
  return call(Needs::context, [&](const Driver& driver) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    const CUresult known = peer_contexts(driver, destination_device, source_device, to, from);
    if (known != CUDA_SUCCESS) return known;
    return driver.cuMemcpyPeerAsync(address(destination), to, address(source), from, bytes, stream);
  });
}

cudaError_t berth_cudart_cudaMemcpy2D(void* destination, std::size_t destination_pitch,
                                      const void* source, std::size_t source_pitch,
                                      std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  return copy_2d({destination, destination_pitch, source, source_pitch, width, rows}, kind,
                 Order::now());
}

cudaError_t berth_cudart_cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch,
                                           const void* source, std::size_t source_pitch,
                                           std::size_t width, std::size_t rows, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return copy_2d({destination, destination_pitch, source, source_pitch, width, rows}, kind,
                 Order::on(stream));
}

cudaError_t berth_cudart_cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources,
                                              const std::size_t* bytes, std::size_t count,
                                              cudaMemcpyAttributes* attributes, std::size_t* firsts,
                                              std::size_t attribute_count, cudaStream_t stream) {
  static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
  return forward(Needs::context, &Driver::cuMemcpyBatchAsync,
                 const_cast<CUdeviceptr*>(same<const CUdeviceptr*>(destinations)),
                 const_cast<CUdeviceptr*>(same<const CUdeviceptr*>(sources)),
                 const_cast<std::size_t*>(bytes), count, same<CUmemcpyAttributes*>(attributes),
                 firsts, attribute_count, stream);
}

// `failed` is the index of an invalid copy, which the driver no longer reports.
cudaError_t berth_cudart_12_cudaMemcpyBatchAsync(void** destinations, void** sources,
                                                 std::size_t* bytes, std::size_t count,
                                                 cudaMemcpyAttributes* attributes,
                                                 std::size_t* firsts, std::size_t attribute_count,
                                                 std::size_t* failed, cudaStream_t stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  return berth_cudart_cudaMemcpyBatchAsync(destinations, sources, bytes, count, attributes, firsts,
                                           attribute_count, stream);
}

cudaError_t berth_cudart_cudaMemcpy3DBatchAsync(std::size_t count, cudaMemcpy3DBatchOp* copies,
                                                unsigned long long flags, cudaStream_t stream) {
  static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
  return forward(Needs::context, &Driver::cuMemcpy3DBatchAsync, count,
                 same<CUDA_MEMCPY3D_BATCH_OP*>(copies), flags, stream);
}

cudaError_t berth_cudart_12_cudaMemcpy3DBatchAsync(std::size_t count, cudaMemcpy3DBatchOp* copies,
                                                   std::size_t* failed, unsigned long long flags,
                                                   cudaStream_t stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  return berth_cudart_cudaMemcpy3DBatchAsync(count, copies, flags, stream);
}

cudaError_t berth_cudart_cudaMemcpyWithAttributesAsync(void* destination, const void* source,
                                                       std::size_t bytes,
                                                       cudaMemcpyAttributes* attributes,
                                                       cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemcpyWithAttributesAsync, address(destination),
                 address(source), bytes, same<CUmemcpyAttributes*>(attributes), stream);
}

cudaError_t berth_cudart_cudaMemcpy3DWithAttributesAsync(cudaMemcpy3DBatchOp* copy,
                                                         unsigned long long flags,
                                                         cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemcpy3DWithAttributesAsync,
                 same<CUDA_MEMCPY3D_BATCH_OP*>(copy), flags, stream);
}

}  // namespace berth::cudart
