// SPDX-License-Identifier: Apache-2.0
#include "cudart/call.hpp"

#include <atomic>

#include "base/fork.hpp"
#include "cudart/version.hpp"

namespace berth::cudart {
namespace {

/// The process that initialized the driver; null before. Never destroyed.
std::atomic<const ForkOrigin*> initialized = nullptr;

cudaError_t initialize(const LoadedDriver& driver) {
  const CUresult result = driver.legacy.cuInit(0);
  if (result == CUDA_SUCCESS) {
    static const ForkOrigin origin;
    initialized.store(&origin, std::memory_order_release);
    return cudaSuccess;
  }
  if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_SYSTEM_NOT_READY ||
      result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
    return to_error(result);
  return cudaErrorInitializationError;
}

}  // namespace

// A forked child is refused before any lock is acquired, because another thread of the parent may
// have held it.
const Driver* prepare(Needs needs, cudaError_t& error) {
  const ForkOrigin* origin = initialized.load(std::memory_order_acquire);
  if (origin != nullptr && !origin->is_here()) {
    error = cudaErrorInitializationError;
    return nullptr;
  }
  const LoadedDriver* loaded = loaded_driver();
  if (loaded == nullptr || loaded->version / 1000 < berth_cudart_version() / 1000) {
    error = cudaErrorInsufficientDriver;
    return nullptr;
  }
  if (origin == nullptr) error = initialize(*loaded);
  if (error != cudaSuccess) return nullptr;
  const Driver& driver =
      this_thread().null_stream_is_per_thread ? loaded->per_thread : loaded->legacy;
  if (needs == Needs::context) error = to_error(enter_context(driver));
  return error == cudaSuccess ? &driver : nullptr;
}

}  // namespace berth::cudart
