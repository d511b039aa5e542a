// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>

#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"

namespace berth {

/// After a failure, where memory of a caller's must not be left to work that was submitted before:
/// waits for `stream`, and reports what that says.
inline void settle(StreamRef stream) noexcept {
  const ContextScope scope(stream.context(), std::nothrow);
  stream.context().driver().stream_synchronize_or_report(stream.native());
}

/// The same where the stream may be captured: then there is nothing to wait for, and asking would break
/// the capture.
inline void settle_unless_captured(StreamRef stream) noexcept {
  try {
    if (is_capturing(stream)) return;
  } catch (const Error& error) {
    stream.context().driver().report(Severity::error, "in a destructor", error);
  }
  settle(stream);
}

}  // namespace berth
