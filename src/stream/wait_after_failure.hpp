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

/// Waits for `stream` after a failure, because work that was already submitted may still use memory
/// of the caller. A failed wait is reported. Does not wait for a captured stream: nothing runs
/// there, and a wait would invalidate the capture.
inline void wait_after_failure(StreamRef stream) noexcept {
  const Driver& driver = stream.context().driver();
  const ContextScope scope(stream.context(), std::nothrow);
  try {
    if (is_capturing_in_scope(stream)) return;
  } catch (const std::exception& error) {  // or a lack of memory for the message
    driver.report(Severity::error, "after a failure", error);
  }
  wait_for_or_report(stream);
}

/// Waits for the work before `mark`, which is not captured, after a query of the event failed.
/// Returns immediately if the device has failed.
inline void wait_after_failure(EventRef mark) noexcept {
  const ContextScope scope(mark.context(), std::nothrow);
  static_cast<void>(try_wait_for(mark));
}

}  // namespace berth
