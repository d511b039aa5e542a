// SPDX-License-Identifier: Apache-2.0
// Order between streams on the device: one stream waits for several, and work that spreads over
// side streams and is joined again. No host thread waits.
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

/// Makes work submitted to `waiter` from now on wait for all work that each of `streams` holds now.
/// A stream that is named twice counts once; `waiter` itself is ignored.
///
/// `events`  The event pool of the device of `streams`; `waiter` may be of another device.
///           Runtime::join() accepts streams of any devices. One pooled event is recorded for each
///           distinct stream, and is returned to the pool before the call returns.
/// Errors    InvalidArgument: a stream of another device than `events`. StreamCaptured: `waiter` is
///           captured, and one of `streams` is not or belongs to another capture; both captures
///           stay valid. DriverError. After an error, `waiter` may wait for some of the streams,
///           which is harmless, and the call can be repeated.
/// Threads   Safe from any thread. Work that another thread submits to `streams` meanwhile may or
///           may not be waited for.
BERTH_API void join(EventPool& events, StreamRef waiter, std::span<const StreamRef> streams);
BERTH_API void join(EventPool& events, StreamRef waiter, std::initializer_list<StreamRef> streams);

/// A scope with side streams, which start after the work of their parent, and which the parent
/// waits for at the end:
///
///     {
///       ForkJoin side = runtime.fork(stream, 2);
///       launch_left(side[0]);
///       launch_right(side[1]);
///     }  // work submitted to `stream` from here on waits for both
///
/// During a capture of the parent, the side streams are captured too, and must be joined before the
/// capture ends. After the join, they are not leased again until the capture has ended, because
/// CUDA captures any work on them. Source: CUDA Programming Guide, "Cross-stream Dependencies and
/// Events".
///
/// Order     As join(): at construction each side stream waits for the parent's work so far, and at
///           join() the parent waits for the work of the side streams. Side streams are not ordered
///           with respect to each other.
/// Blocking  As acquiring the side streams does (StreamPoolOptions::on_shortage). Otherwise none,
///           unless joining fails in the destructor.
/// Lifetime  Must end before its Runtime, whose end reports the leases of the side streams.
/// Threads   One thread at a time. If the parent is the per-thread default stream, the thread of
///           that stream.
class BERTH_API ForkJoin {
 public:
  /// The maximum number of side streams.
  static constexpr std::size_t kStreamsMax = 65536;

  /// Leases `count` streams of `priority`; 0 streams: no driver call. If the pool has too few,
  /// StreamPoolOptions::on_shortage decides: with `share` a pooled stream has several users, so do
  /// not use more than streams_max during a capture; with `wait` the call waits until other leases
  /// are returned; it deadlocks if the calling thread holds them.
  /// Errors  InvalidArgument: `streams` or `events` of another device than `parent`, a priority
  ///         above 0, or a `count` above kStreamsMax. Exhausted: StreamShortage::fail. DriverError.
  ///         Streams forked before the error are joined as by the destructor.
  ForkJoin(StreamRef parent, StreamPool& streams, EventPool& events, std::size_t count,
           int priority = 0);
  /// Calls join() if it was not called. Does not throw: if the driver refuses, the failure goes to
  /// the report sink and the host waits for the side streams instead. Side streams of a capture
  /// that has become invalid are not waited for, because no work runs on them.
  ~ForkJoin();
  ForkJoin(const ForkJoin&) = delete;
  ForkJoin& operator=(const ForkJoin&) = delete;

  /// The side streams; empty after join().
  [[nodiscard]] std::span<const StreamRef> streams() const noexcept { return streams_; }
  [[nodiscard]] std::size_t size() const noexcept { return streams_.size(); }
  /// `index` must be below size().
  [[nodiscard]] StreamRef operator[](std::size_t index) const noexcept { return streams_[index]; }

  /// Makes work submitted to the parent from now on wait for the work of the side streams, and
  /// returns these to their pool. A second call has no effect.
  /// Errors  DriverError: no stream was returned, and the call can be repeated.
  void join();

 private:
  void fork(EventPool& events);
  void join_or_wait() noexcept;
  void give_back() noexcept;

  StreamRef parent_;
  StreamPool* pool_;
  EventPool* events_;
  bool is_captured_ = false;  ///< the parent was captured at the fork
  std::vector<StreamLease> leases_;
  std::vector<StreamRef> streams_;  ///< those of leases_, in their order, that wait for the parent
};

}  // namespace berth
