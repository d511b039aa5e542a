// SPDX-License-Identifier: Apache-2.0
// What the runtime keeps for each host thread.
// Source: CUDA Runtime API, "Error Handling", cudaSetDevice.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace berth::cudart {

/// What stands between <<< and >>>.
struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

struct Thread {
  /// Notes `error`, if it is one, for cudaGetLastError().
  cudaError_t note(cudaError_t error);
  [[nodiscard]] cudaError_t peek_last_error();
  /// An error after which the device does no more work stays until the device is reset.
  cudaError_t take_last_error();

  int device = 0;                          ///< the last one of cudaSetDevice
  CUcontext context = nullptr;             ///< that the runtime made current for `device`
  bool null_stream_is_per_thread = false;  ///< in the call that runs
  /// Of launches whose arguments are being evaluated, which may themselves launch.
  std::array<LaunchConfiguration, 4> configurations;
  std::size_t configurations_pushed = 0;

 private:
  /// Forgets an error of a device that was reset since.
  void drop_outdated();

  cudaError_t last_error_ = cudaSuccess;
  std::uint64_t resets_seen_ = 0;
};

Thread& this_thread();

/// A device was reset, which ends the errors that stay, and memory.
void note_reset();
/// How often that happened.
std::uint64_t reset_count();

/// While it lives, the null stream is this thread's own.
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
