// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>

#include "berth/stream.hpp"

#include "device/device_context.hpp"

namespace berth {

/// After a failure, where memory of a caller's must not be left to work that was submitted before:
/// waits for `stream`, and reports what that says.
inline void settle(StreamRef stream) noexcept {
  const ContextScope scope(stream.context(), std::nothrow);
  stream.context().driver().stream_synchronize_or_report(stream.native());
}

}  // namespace berth
