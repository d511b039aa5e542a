// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>

#include "berth/event.hpp"
#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

/// Attempts of a wait. A failed device answers each at once.
inline constexpr int kWaitsAfterFailure = 8;

/// Waits for `stream` after a failure, because work that was already submitted may still use memory
/// of the caller. A failed wait is repeated, because that call alone may have failed, and then
/// reported. Does not wait for a captured stream: nothing runs there, and a wait would invalidate
/// the capture.
inline void wait_after_failure(StreamRef stream) noexcept {
  for (int left = kWaitsAfterFailure; left > 0; --left) {
    try {
      const ContextScope scope(stream.context());
      if (!is_capturing_in_scope(stream)) wait_for(stream);
      return;
    } catch (const std::exception& error) {  // or a lack of memory for the message
      if (left == 1) stream.context().driver().report(Severity::error, "after a failure", error);
    }
  }
}

/// Waits for the work before `mark`, which is not captured, after a query of the event failed;
/// likewise. Returns immediately if the device has failed.
inline void wait_after_failure(EventRef mark) noexcept {
  for (int left = kWaitsAfterFailure; left > 0; --left) {
    const ContextScope scope(mark.context(), std::nothrow);
    if (try_wait_for(mark) == CUDA_SUCCESS) return;
  }
}

}  // namespace berth
