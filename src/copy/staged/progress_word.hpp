// SPDX-License-Identifier: Apache-2.0
// How the device reports progress to the host: a word of pinned memory that counts the steps which
// a stream has passed, written in the stream's order (cuStreamWriteValue32). With the default
// barrier flag, everything that the stream did before is visible to a thread that reads the word.
// Reading it is no driver call: a driver call may block behind another thread that waits inside the
// driver, perhaps for what this thread is about to do.
// Source: CUDA Driver API, "Stream Memory Operations".
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "berth/stream.hpp"

#include "device/device_context.hpp"

namespace berth {

/// Threads  read() on any thread, submit() on one.
class ProgressWord {
 public:
  /// Instead of a number of steps: the device executes none of the remaining steps.
  static constexpr std::size_t kEnd = UINT32_MAX;

  /// `word` is 0, and stays valid until the stream has passed all that was submitted.
  explicit ProgressWord(std::uint32_t* word) : word_(word) {}

  /// When `stream` passes this point, `steps` have passed, more than before, or the end is reached.
  /// Within a ContextScope.
  /// Errors  DriverError.
  void submit(std::size_t steps, StreamRef stream) const {
    const CUresult result = try_submit(steps, stream);
    if (result != CUDA_SUCCESS)
      stream.context().driver().raise(DriverCall::stream_write_value32, result);
  }
  [[nodiscard]] CUresult try_submit(std::size_t steps, StreamRef stream) const noexcept {
    return stream.context().driver().try_stream_write_value32(
        stream.native(), reinterpret_cast<CUdeviceptr>(word_), static_cast<cuuint32_t>(steps),
        unsigned{CU_STREAM_WRITE_VALUE_DEFAULT});
  }

  /// Reads the word until `steps` have passed, for up to `duration`. Returns whether they have. No
  /// driver call.
  [[nodiscard]] bool reaches(std::size_t steps, const Driver& driver,
                             std::chrono::nanoseconds duration) const {
    const auto deadline = std::chrono::steady_clock::now() + duration;
    do {
      if (read(driver, 0) >= steps) return true;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
  }

  /// The number of steps that have passed, at least `known`; or kEnd. Their effects are visible.
  [[nodiscard]] std::size_t read(const Driver& driver, std::size_t known) const {
    const std::size_t steps = std::atomic_ref(*word_).load(std::memory_order_acquire);
    // The simulator's race detector sees only driver calls, so the read is reported to it.
    if (steps != known) driver.sim_host_observes(word_, steps);
    return steps;
  }

 private:
  std::uint32_t* word_;
};

}  // namespace berth
