// SPDX-License-Identifier: Apache-2.0
#include "stream/wait_after_failure.hpp"

#include <exception>
#include <new>
#include <optional>

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

/// Whether the stream is captured; nullopt if the query fails. Within a ContextScope.
std::optional<bool> try_is_capturing(StreamRef stream) noexcept {
  try {
    return is_capturing_in_scope(stream);
  } catch (const std::exception&) {  // an Error, or a lack of memory for its message
    return std::nullopt;
  }
}

}  // namespace

void wait_after_failure(StreamRef stream) noexcept {
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

void wait_after_failure(EventRef mark) noexcept {
  for (int left = kAttemptsAfterFailure; left > 0; --left) {
    const ContextScope scope(mark.context(), std::nothrow);
    if (try_wait_for(mark) == CUDA_SUCCESS) return;
  }
}

CUresult query_repeatedly(EventRef mark) noexcept {
  CUresult result = CUDA_ERROR_NOT_READY;
  for (int left = kAttemptsAfterFailure; left > 0; --left) {
    const ContextScope scope(mark.context(), std::nothrow);
    result = mark.context().driver().try_event_query(mark.native());
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) break;
  }
  return result;
}

}  // namespace berth
