// SPDX-License-Identifier: Apache-2.0
// The happens-before relation that streams and events establish, independent of the actual order of
// execution: vector clocks with one component for each stream, and one for the own accesses of each
// host actor. Work that a host thread has observed to be complete precedes what the thread submits
// later; host_clocks.hpp defines which threads count as one. Guarded by sim::mutex. Source: Fidge,
// "Timestamps in message-passing systems that preserve the partial ordering", 1988; Mattern,
// "Virtual time and global states of distributed systems", 1989.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/check/clock.hpp"
#include "sim/check/host_clocks.hpp"
#include "sim/check/late_order.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

/// A closed clock (LateOrder) that precedes an operation, so that only the rest of the operation's
/// clock has to be closed. `replaces`: the clock has little in common with that of the previous
/// operation.
struct Floor {
  Clock clock;
  bool replaces = false;
};

/// The order of a stream: its latest operation, and all that precedes it.
struct StreamOrder {
  Stamp latest;  ///< time 0 before the first operation
  Clock clock;
  bool has_lane = false;
  /// The clock of the operation that ran last: as submitted, and closed (LateOrder).
  Clock ran;
  Clock ran_closed;
  Floor floor;                     ///< of the next operation
  std::uint64_t host_version = 0;  ///< the latest Knowledge::version that was joined
};

/// The number of simulators that track the order: at 0, no event of a host thread is needed. Read
/// without the lock.
inline constinit std::atomic<std::size_t> orders_tracked = 0;

class HappensBefore {
 public:
  /// `always`: track the order permanently, not only between start() and stop().
  HappensBefore(bool always, bool threads_apart) : always_(always), host_(threads_apart) {
    set(always);
  }
  ~HappensBefore() { set(false); }
  HappensBefore(const HappensBefore&) = delete;
  HappensBefore& operator=(const HappensBefore&) = delete;

  [[nodiscard]] bool on() const { return on_; }
  /// Work that was submitted while it was off precedes nothing.
  void start() { set(true); }
  void stop() { set(always_); }

  /// Adds an operation to a stream, ordered after the stream's earlier work and all that the
  /// calling thread has observed. The result is passed to run().
  Floor submit(StreamOrder& order);
  /// Orders later submissions to `order` after `clock`.
  void order_after(StreamOrder& order, const Clock& clock) { order.clock.join(clock); }
  /// The same for all that currently precedes `from`, if `order` has only its own operations as
  /// predecessors: takes time only for those.
  void branch_off(StreamOrder& order, const StreamOrder& from);
  /// An operation of `order` runs that was submitted with the clock `before`; `floor` is the result
  /// of submit(). Returns the closed clock of its predecessors, including order found late; valid
  /// until the next operation of `order` runs. Later submissions are ordered after it, too.
  const Clock& run(StreamOrder& order, const Clock& before, const Floor& floor);
  /// The operation `wait`, which run() has begun on `order`, is found to be ordered after `clock`,
  /// which is closed.
  void order_late(StreamOrder& order, Stamp wait, const Clock& clock);

  /// Whether `stamp` precedes new submissions to `order`.
  [[nodiscard]] bool precedes(Stamp stamp, const StreamOrder& order) const;

  /// The calling thread has observed that all of `clock` is complete.
  void host_sees(const Clock& clock);
  /// An access by the calling thread itself, ordered after all that it has observed.
  Stamp host_acts();
  /// The work that the calling thread has observed to be complete.
  [[nodiscard]] const Clock& host() { return host_.current().clock; }
  HostClocks& hosts() { return host_; }
  /// Objects in `memory` were destroyed; a thread has ended.
  void forget_objects(std::span<const std::byte> memory);
  void end_thread(std::uint64_t thread);
  /// Adds to `clock` all work of destroyed streams of `context`; 0 means of all contexts.
  void add_retired(Handle context, Clock& clock) const;

  /// The stream was destroyed. A new stream can reuse its lane if the creating thread has observed
  /// that the old work is complete, so that everything on the lane is ordered.
  void retire(const StreamOrder& order, Handle context);

 private:
  struct Retired {
    Stamp latest;
    Handle context;
  };
  static constexpr Handle kNoContext = ~Handle{0};

  void set(bool on) {
    if (on && !on_) ++orders_tracked;
    if (!on && on_) --orders_tracked;
    on_ = on;
  }
  Stamp open_lane();

  bool always_;
  bool on_ = false;
  HostClocks host_;
  Lane lanes_ = 0;
  std::vector<Retired> retired_;
  /// With the knowledge of this version, none of the first `passed_` of `retired_` is known to be
  /// done.
  std::size_t passed_ = 0;
  std::uint64_t passed_by_ = 0;
  LateOrder late_;
};

}  // namespace berth::sim
