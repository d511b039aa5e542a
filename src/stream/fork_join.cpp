// SPDX-License-Identifier: Apache-2.0
#include "berth/fork_join.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/join.hpp"
#include "stream/wait_after_failure.hpp"

namespace berth {
namespace {

/// `waiter` is captured, so it may wait only for work of the same capture. Otherwise the driver
/// would invalidate the capture.
void require_same_capture(StreamRef waiter, StreamRef stream, EventRef mark) {
  if (waiter.is_legacy_default()) refuse_captured(waiter, "made to wait");
  if (stream.context().captured_events().contains(mark.native()) && in_one_capture(waiter, stream))
    return;
  throw StreamCaptured(
      format_text("a captured stream of {} cannot wait for work outside of its capture; accepted: "
                  "streams of the same capture",
                  waiter.device().to_string()));
}

}  // namespace

void join(const EventPoolOf& events_of, StreamRef waiter, std::span<const StreamRef> streams) {
  const bool waiter_is_captured = !streams.empty() && is_capturing(waiter);
  for (auto stream = streams.begin(); stream != streams.end(); ++stream) {
    const bool named_before = std::find(streams.begin(), stream, *stream) != stream;
    if (named_before || *stream == waiter) continue;
    const EventLease mark = events_of(stream->context()).acquire();
    mark->record(*stream);
    if (waiter_is_captured) require_same_capture(waiter, *stream, mark);
    waiter.wait(mark);
  }
}

void join(EventPool& events, StreamRef waiter, std::span<const StreamRef> streams) {
  join([&events](DeviceContext&) -> EventPool& { return events; }, waiter, streams);
}

void join(EventPool& events, StreamRef waiter, std::initializer_list<StreamRef> streams) {
  join(events, waiter, std::span(streams.begin(), streams.size()));
}

ForkJoin::ForkJoin(StreamRef parent, StreamPool& streams, EventPool& events, std::size_t count,
                   int priority)
    : parent_(parent), pool_(&streams), events_(&events) {
  if (count > kStreamsMax) {
    throw InvalidArgument(
        format_text("a stream of {} cannot be forked into {} streams{}; accepted: 0 to {}",
                    parent.device().to_string(), count, negative_hint(count), kStreamsMax));
  }
  leases_.reserve(count);
  streams_.reserve(count);
  for (std::size_t index = 0; index < count; ++index) leases_.push_back(streams.acquire(priority));
  if (count == 0) return;
  try {
    fork(events);
  } catch (...) {
    join_or_wait();
    throw;
  }
}

void ForkJoin::fork(EventPool& events) {
  const DeviceContext& of_streams = leases_.front()->context();
  if (&of_streams != &parent_.context()) {
    throw InvalidArgument(format_text(
        "a stream of {} cannot be forked into streams of {}; accepted: a pool of its own device",
        parent_.device().to_string(), of_streams.name_beside(parent_.context())));
  }
  const EventLease mark = events.acquire();
  mark->record(parent_);
  is_captured_ = parent_.context().captured_events().contains(mark->native());
  for (const StreamLease& lease : leases_) {
    if (lease.ref() != parent_) lease->wait(mark);
    streams_.push_back(lease);
  }
}

void ForkJoin::join() {
  berth::join(*events_, parent_, streams_);
  give_back();
}

void ForkJoin::give_back() noexcept {
  streams_.clear();
  if (is_captured_) {
    for (StreamLease& lease : leases_) pool_->set_aside(lease.release());
  }
  leases_.clear();
}

void ForkJoin::join_or_wait() noexcept {
  const Driver& driver = parent_.context().driver();
  try {
    return join();
  } catch (const std::exception& error) {  // or a lack of memory for the message
    driver.report(Severity::error, "side streams are waited for instead of joined", error);
  }
  for (const StreamRef stream : streams_) wait_after_failure(stream);
  give_back();
}

ForkJoin::~ForkJoin() {
  join_or_wait();
}

}  // namespace berth
