// SPDX-License-Identifier: Apache-2.0
// How the device tells the host how far it is: a word of pinned memory that counts the steps which
// a stream has passed, written in the stream's order (cuStreamWriteValue32). With the default
// barrier flag all that the stream did before is visible to a thread that reads the word. Reading
// is no driver call: a driver call may block behind another thread that is inside the driver,
// perhaps in a wait for what this thread is about to do.
// Source: CUDA Driver API, "Stream Memory Operations".
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "berth/stream.hpp"

#include "device/device_context.hpp"

namespace berth {

/// Threads  read() on any thread, submit() on one.
class ProgressWord {
 public:
  /// `word` is 0 and stays until the stream has passed all that was submitted.
  explicit ProgressWord(std::uint32_t* word) : word_(word) {}

  /// Once `stream` has come here, `steps` have passed. More than before. Within a ContextScope.
  /// Errors  DriverError.
  void submit(std::size_t steps, StreamRef stream) const {
    stream.context().driver().stream_write_value32(
        stream.native(), reinterpret_cast<CUdeviceptr>(word_), static_cast<cuuint32_t>(steps),
        unsigned{CU_STREAM_WRITE_VALUE_DEFAULT});
  }

  /// Steps that have passed, `known` or more. What the device did until then is visible.
  [[nodiscard]] std::size_t read(const Driver& driver, std::size_t known) const {
    const std::size_t steps = std::atomic_ref(*word_).load(std::memory_order_acquire);
    // Tools that look for races see driver calls alone, and are told.
    if (steps != known) driver.sim_host_observes(word_, steps);
    return steps;
  }

 private:
  std::uint32_t* word_;
};

}  // namespace berth
