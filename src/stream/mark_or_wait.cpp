// SPDX-License-Identifier: Apache-2.0
#include "stream/mark_or_wait.hpp"

#include <cuda.h>

#include <exception>
#include <memory>
#include <utility>

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {

std::shared_ptr<const EventLease> record_event(StreamRef stream, EventPool& events) {
  auto event = std::make_shared<EventLease>(events.acquire());
  record_unchecked(*event, stream);
  return event;
}

LastWork mark_or_wait(StreamRef stream, EventPool& events, std::string_view who) noexcept {
  const Driver& driver = stream.context().driver();
  const RelaxedCapture relaxed(driver);
  bool may_mark = true;  // the host waits only if no event could be recorded
  for (int attempt = 0; attempt < kAttemptsAfterFailure; ++attempt) {
    const bool may_have_marked = may_mark;
    try {
      if (is_capturing(stream)) return {LastWork::State::captured};
      if (std::exchange(may_mark, false))
        return {LastWork::State::marked, record_event(stream, events)};
      sync_unchecked(stream);
      return {LastWork::State::over};
    } catch (const std::exception& error) {  // an Error or std::bad_alloc
      const auto* const failure = dynamic_cast<const Error*>(&error);
      if (failure != nullptr && failure->driver_code() == CUDA_ERROR_DEINITIALIZED)
        return {LastWork::State::over};  // the exit rule of Driver
      if (!who.empty() && (attempt == 0 || may_have_marked != may_mark)) {
        driver.report(Severity::warning, who,
                      may_mark ? ": a stream cannot be queried" : ": waiting for a stream", error);
      }
      if (failure != nullptr && is_of_destroyed_stream(*failure)) break;
    }
  }
  return {LastWork::State::unknown};
}

bool is_of_destroyed_stream(const Error& error) noexcept {
  return error.driver_code() == CUDA_ERROR_INVALID_HANDLE ||
         error.driver_code() == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace berth
