// SPDX-License-Identifier: Apache-2.0
#include "berth/event.hpp"

#include <utility>

#include "berth/stream.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

CUevent create_event(DeviceContext& context, EventOptions options) {
  if (options.interprocess && options.timing) {
    throw InvalidArgument(
        "an event has both timing and interprocess; accepted: one of them, as other processes "
        "cannot measure with it");
  }
  const ContextScope scope(context);
  CUevent event = nullptr;
  context.driver().event_create(
      &event, unsigned{options.timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING} |
                  (options.interprocess ? unsigned{CU_EVENT_INTERPROCESS} : 0));
  context.captured_events().erase(event);  // a destroyed event of the same handle
  return event;
}

/// Within a ContextScope, on a stream that is not captured.
void record_in_scope(EventRef event, StreamRef stream) {
  DeviceContext& context = event.context();
  context.driver().event_record(event.native(), stream.native());
  context.captured_events().erase(event.native());
}

void refuse_captured_mark(EventRef event, const char* action) {
  if (!event.context().captured_events().contains(event.native())) return;
  throw StreamCaptured(
      format_text("an event of {} that was recorded on a captured stream cannot be {}; accepted: "
                  "events recorded on a stream that is not captured",
                  event.device().to_string(), action));
}

}  // namespace

Device EventRef::device() const noexcept {
  return context_->device();
}

void EventRef::record(StreamRef stream) const {
  if (&stream.context() != context_) {
    throw InvalidArgument(
        format_text("an event of {} cannot be recorded on a stream of {}; accepted: streams of the "
                    "event's own device",
                    device().to_string(), stream.context().name_beside(*context_)));
  }
  const ContextScope scope(*context_);
  if (!is_capturing_in_scope(stream)) return record_in_scope(*this, stream);
  if (stream.is_legacy_default()) refuse_captured(stream, "marked");
  // Before the driver records it, so that no other thread sees it recorded but not registered here.
  const bool is_new = context_->captured_events().insert(native_);
  const CUresult result = context_->driver().try_event_record(native_, stream.native());
  if (result == CUDA_SUCCESS) return;
  if (is_new) context_->captured_events().erase(native_);
  context_->driver().raise(DriverCall::event_record, result);
}

void record_unchecked(EventRef event, StreamRef stream) {
  BERTH_CHECK(&event.context() == &stream.context());
  const ContextScope scope(event.context());
  record_in_scope(event, stream);
}

bool EventRef::is_done() const {
  refuse_captured_mark(*this, "asked whether it is done");
  const ContextScope scope(*context_);
  return context_->driver().succeeded(
      DriverCall::event_query, context_->driver().try_event_query(native_), CUDA_ERROR_NOT_READY);
}

void EventRef::sync() const {
  refuse_captured_mark(*this, "waited for");
  const ContextScope scope(*context_);
  wait_in_caller_mode(*this);
}

void sync_unchecked(EventRef event) {
  const ContextScope scope(event.context());
  wait_for(event);
}

float elapsed_ms(EventRef start, EventRef end) {
  refuse_captured_mark(start, "measured from");
  refuse_captured_mark(end, "measured to");
  const ContextScope scope(start.context());
  float milliseconds = 0;
  const Driver& driver = start.context().driver();
  const CUresult result =
      driver.try_event_elapsed_time(&milliseconds, start.native(), end.native());
  if (result == CUDA_ERROR_INVALID_HANDLE) {
    throw InvalidArgument(format_text(
        "no time can be measured between two events of {}, because one was made without "
        "EventOptions::timing, or was never recorded (cuEventElapsedTime: {}); accepted: "
        "two recorded events of one device with timing",
        start.device().to_string(), driver.describe(result)));
  }
  if (result != CUDA_SUCCESS) driver.raise(DriverCall::event_elapsed_time, result);
  return milliseconds;
}

Event::Event(DeviceContext& context, EventOptions options)
    : ref_(context, create_event(context, options)) {}

Event Event::adopt(EventRef event) {
  if (event.context().pooled_events().contains(event.native())) {
    throw InvalidArgument(format_text(
        "event {} belongs to the pool of {}, which leases it again; accepted: an event of "
        "no pool",
        static_cast<const void*>(event.native()), event.device().to_string()));
  }
  return Event(event);
}

Event::~Event() {
  if (ref_.native() == nullptr) return;
  DeviceContext& context = ref_.context();
  const ContextScope scope(context, std::nothrow);
  context.captured_events().erase(ref_.native());
  context.driver().event_destroy_or_report(ref_.native());
}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    const Event old = std::move(*this);
    ref_ = std::exchange(other.ref_, EventRef(nullptr));
  }
  return *this;
}

}  // namespace berth
