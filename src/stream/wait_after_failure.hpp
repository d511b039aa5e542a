// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>

#include "berth/event.hpp"
#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

/// After a failure, where memory of a caller's must not be left to work that was submitted before:
/// waits for `stream`, and reports what that says. On a stream that is captured nothing runs, so
/// there is nothing to wait for, and waiting would break the capture.
inline void wait_after_failure(StreamRef stream) noexcept {
  const Driver& driver = stream.context().driver();
  const ContextScope scope(stream.context(), std::nothrow);
  try {
    if (is_capturing_in_scope(stream)) return;
  } catch (const Error& error) {
    driver.report(Severity::error, "after a failure", error);
  }
  wait_for_or_report(stream);
}

/// The same for what `mark` marks, which is not captured, where the driver has failed to say
/// whether it is done. Of a device that has failed that is said at once, and known.
inline void wait_after_failure(EventRef mark) noexcept {
  const ContextScope scope(mark.context(), std::nothrow);
  RelaxedCapture relaxed(mark.context().driver());
  relaxed.begin();
  static_cast<void>(try_wait_for(mark));
}

}  // namespace berth
