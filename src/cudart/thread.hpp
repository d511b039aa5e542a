// SPDX-License-Identifier: Apache-2.0
// The per-thread state of the runtime.
// Source: CUDA Runtime API, "Error Handling", cudaSetDevice.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace berth::cudart {

/// The execution configuration of a launch, <<<...>>>.
struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

struct Thread {
  /// Records `error` for cudaGetLastError(), unless it is success.
  cudaError_t note(cudaError_t error);
  [[nodiscard]] cudaError_t peek_last_error();
  /// An error that stops all work of the device is kept until the device is reset.
  cudaError_t take_last_error();

  int device = 0;                          ///< of the latest cudaSetDevice
  CUcontext context = nullptr;             ///< that the runtime made current for `device`
  bool null_stream_is_per_thread = false;  ///< in the running call
  /// Of launches whose arguments are being evaluated; these may contain launches.
  std::array<LaunchConfiguration, 4> configurations;
  std::size_t configurations_pushed = 0;

 private:
  /// Forgets an error of a device that was reset later.
  void drop_outdated();

  cudaError_t last_error_ = cudaSuccess;
  std::uint64_t resets_seen_ = 0;
};

Thread& this_thread();

/// Records a reset of a device, which ends kept errors and memory.
void note_reset();
/// The number of resets.
std::uint64_t reset_count();

/// During its lifetime, the null stream is this thread's default stream.
class NullStreamIsPerThread {
 public:
  NullStreamIsPerThread() : before_(this_thread().null_stream_is_per_thread) {
    this_thread().null_stream_is_per_thread = true;
  }
  ~NullStreamIsPerThread() { this_thread().null_stream_is_per_thread = before_; }
  NullStreamIsPerThread(const NullStreamIsPerThread&) = delete;
  NullStreamIsPerThread& operator=(const NullStreamIsPerThread&) = delete;

 private:
  const bool before_;
};

}  // namespace berth::cudart
