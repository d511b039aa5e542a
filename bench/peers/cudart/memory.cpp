// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "peers/cudart/forward.hpp"

namespace berth::bench::cudart {
namespace {

std::atomic<std::uintptr_t> next_address = std::uintptr_t{1} << 40;

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (target.kind == CudartTarget::Kind::nothing) {
    *data = reinterpret_cast<void*>(next_address.fetch_add(bytes));
    return cudaSuccess;
  }
  CUdeviceptr address = 0;
  const cudaError_t error =
      forward([&](const Driver& to) { return to.try_mem_alloc(&address, bytes); });
  *data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  return error;
}

cudaError_t cudaFree(void* data) {
  const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data));
  return forward([=](const Driver& to) { return to.try_mem_free(address); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return forward([=](const Driver& to) { return to.try_mem_get_info(free, total); });
}

}  // extern "C"

}  // namespace berth::bench::cudart
