// SPDX-License-Identifier: Apache-2.0
#include "berth/event.hpp"

#include <utility>

#include <fmt/format.h>

#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/poll.hpp"

namespace berth {
namespace {

CUevent create_event(DeviceContext& context, EventOptions options) {
  const ContextScope scope(context);
  CUevent event = nullptr;
  context.driver().event_create(
      &event, unsigned{options.timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING});
  return event;
}

}  // namespace

Device EventRef::device() const noexcept {
  return context_->device();
}

void EventRef::record(StreamRef stream) const {
  if (&stream.context() != context_) {
    throw InvalidArgument(
        fmt::format("an event of {} cannot be recorded on a stream of {}; accepted: streams of the "
                    "event's own device",
                    device().to_string(), stream.device().to_string()));
  }
  const ContextScope scope(*context_);
  context_->driver().event_record(native_, stream.native());
}

bool EventRef::is_done() const {
  const ContextScope scope(*context_);
  return is_complete(context_->driver(), DriverCall::event_query,
                     context_->driver().try_event_query(native_));
}

void EventRef::sync() const {
  const ContextScope scope(*context_);
  context_->driver().event_synchronize(native_);
}

float elapsed_ms(EventRef start, EventRef end) {
  const ContextScope scope(start.context());
  float milliseconds = 0;
  start.context().driver().event_elapsed_time(&milliseconds, start.native(), end.native());
  return milliseconds;
}

Event::Event(DeviceContext& context, EventOptions options)
    : ref_(context, create_event(context, options)) {}

Event::~Event() {
  if (CUevent event = release()) {
    const ContextScope scope(ref_.context(), std::nothrow);
    ref_.context().driver().event_destroy_or_report(event);
  }
}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    Event old = std::move(*this);
    ref_ = EventRef(other.ref_.context(), other.release());
  }
  return *this;
}

CUevent_st* Event::release() noexcept {
  CUevent event = ref_.native();
  ref_ = EventRef(ref_.context(), nullptr);
  return event;
}

}  // namespace berth
