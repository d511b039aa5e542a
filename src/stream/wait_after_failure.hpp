// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <optional>

#include "berth/event.hpp"
#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

/// Attempts of a query or a wait. A failed device answers each at once.
inline constexpr int kAttemptsAfterFailure = 8;

/// Whether the stream is captured; nullopt if the query fails. Within a ContextScope.
inline std::optional<bool> try_is_capturing(StreamRef stream) noexcept {
  try {
    return is_capturing_in_scope(stream);
  } catch (const std::exception&) {  // an Error, or a lack of memory for its message
    return std::nullopt;
  }
}

/// Waits for `stream` after a failure, because work that was already submitted may still use memory
/// of the caller. A failed wait is repeated, because that call alone may have failed, and then
/// reported. Does not wait for a captured stream: nothing runs there, and a wait would invalidate
/// the capture. A stream of which all queries fail is waited for.
inline void wait_after_failure(StreamRef stream) noexcept {
  for (int left = kAttemptsAfterFailure; left > 0; --left) {
    const ContextScope scope(stream.context(), std::nothrow);
    const std::optional<bool> captured = try_is_capturing(stream);
    if (captured.value_or(false)) return;
    if (!captured && left > 1) continue;
    try {
      return wait_for(stream);
    } catch (const std::exception& error) {
      if (left == 1) stream.context().driver().report(Severity::error, "after a failure", error);
    }
  }
}

/// Queries `mark`, which is not captured, and repeats a failed query, because that call alone may
/// have failed.
[[nodiscard]] inline CUresult query_repeatedly(EventRef mark) noexcept {
  CUresult result = CUDA_ERROR_NOT_READY;
  for (int left = kAttemptsAfterFailure; left > 0; --left) {
    const ContextScope scope(mark.context(), std::nothrow);
    result = mark.context().driver().try_event_query(mark.native());
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) break;
  }
  return result;
}

/// Waits for the work before `mark`, which is not captured, after a query of the event failed, and
/// repeats a failed wait. Reports nothing. Returns immediately if the device has failed.
inline void wait_after_failure(EventRef mark) noexcept {
  for (int left = kAttemptsAfterFailure; left > 0; --left) {
    const ContextScope scope(mark.context(), std::nothrow);
    if (try_wait_for(mark) == CUDA_SUCCESS) return;
  }
}

}  // namespace berth
