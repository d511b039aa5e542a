// SPDX-License-Identifier: Apache-2.0
// Order between streams: one waits for many, and work that spreads over side streams and comes back.
// All on the device: no host thread waits.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include "berth/event_pool.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"
#include "berth/stream_pool.hpp"

namespace berth {

/// Work submitted to `waiter` from now on waits for all work that each of `streams` holds now. A
/// stream that is named twice counts once; `waiter` itself counts as nothing.
///
/// `events`  Of the device of `streams`; `waiter` may be of another. Runtime::join() takes streams of
///           any devices. One pooled event is recorded for each distinct stream, and is back in the
///           pool when the call returns.
/// Errors    InvalidArgument: a stream of another device than `events`. StreamCaptured: `waiter` is
///           captured and one of `streams` is not, or by another capture; both captures are as valid
///           as before. DriverError. `waiter` then waits for some of the streams, perhaps: that is
///           order too many, and calling again is fine.
/// Threads   Safe from any thread. What another thread submits to `streams` meanwhile is waited for or
///           not.
BERTH_API void join(EventPool& events, StreamRef waiter, std::span<const StreamRef> streams);
BERTH_API void join(EventPool& events, StreamRef waiter, std::initializer_list<StreamRef> streams);

/// Side streams that start behind what their parent holds, and that the parent waits for in the end:
///
///     {
///       ForkJoin side = runtime.fork(stream, 2);
///       launch_left(side[0]);
///       launch_right(side[1]);
///     }                          // what is submitted to `stream` from here on waits for both
///
/// Within a capture of the parent the side streams are captured too, and have to be joined before it
/// ends. Once joined they are nobody's until it has ended: CUDA goes on to capture what they get.
/// Source: CUDA Programming Guide, "Cross-stream Dependencies and Events".
///
/// Order     As by join(): each side stream behind the parent's work of now, at construction; the
///           parent behind theirs, at join(). Side streams are not ordered among each other.
/// Blocking  None, unless joining fails in the destructor.
/// Threads   One thread at a time. Where the parent is the per-thread default stream, that whose
///           stream it is.
class BERTH_API ForkJoin {
 public:
  /// Leases `count` streams of `priority`; 0 makes no driver call. Beyond StreamPoolOptions::
  /// streams_max a pooled stream has several users: within a capture, use no more.
  /// Errors  InvalidArgument: `streams` or `events` of another device than `parent`, or a priority
  ///         above 0. DriverError. What was forked by then has been joined as the destructor would.
  ForkJoin(StreamRef parent, StreamPool& streams, EventPool& events, std::size_t count,
           int priority = 0);
  /// join(), where that has not been called. Does not throw: where the driver refuses, the failure
  /// goes to the report sink and the host waits for the side streams instead. Side streams of a
  /// capture that has become invalid are left alone: nothing runs on them.
  ~ForkJoin();
  ForkJoin(const ForkJoin&) = delete;
  ForkJoin& operator=(const ForkJoin&) = delete;

  /// The side streams; none once they are joined.
  [[nodiscard]] std::span<const StreamRef> streams() const noexcept { return streams_; }
  [[nodiscard]] std::size_t size() const noexcept { return streams_.size(); }
  /// `index` below size().
  [[nodiscard]] StreamRef operator[](std::size_t index) const noexcept { return streams_[index]; }

  /// Work submitted to the parent from now on waits for what the side streams hold, which go back to
  /// their pool. A second call does nothing.
  /// Errors  DriverError: nothing has gone back, and it can be called again.
  void join();

 private:
  void fork(EventPool& events);
  void join_or_wait() noexcept;
  void give_back() noexcept;

  StreamRef parent_;
  StreamPool* pool_;
  EventPool* events_;
  bool is_captured_ = false;  ///< the parent was, when it was forked
  std::vector<StreamLease> leases_;
  std::vector<StreamRef> streams_;  ///< of leases_, in their order; those that wait for the parent
};

}  // namespace berth
