// SPDX-License-Identifier: Apache-2.0
// What is ordered before what, by the rules of streams and events alone and not by when work
// happened to run: vector clocks, one component a stream, and one for what each part of the host
// does itself. What a host thread has seen to be done comes before what it submits later; which
// threads count as one, host_clocks.hpp says. Guarded by sim::mutex. Source: Fidge, "Timestamps in
// message-passing systems that preserve the partial ordering", 1988; Mattern, "Virtual time and
// global states of distributed systems", 1989.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/check/clock.hpp"
#include "sim/check/host_clocks.hpp"
#include "sim/check/late_order.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

/// A closed clock (LateOrder) that an operation comes after, so that only the rest of its own clock
/// has to be closed. `replaces`: its own has little in common with that of the operation before it.
struct Floor {
  Clock clock;
  bool replaces = false;
};

/// What a stream keeps: its latest operation, and all that comes before it.
struct StreamOrder {
  Stamp latest;  ///< time 0 before the first
  Clock clock;
  bool has_lane = false;
  /// What the operation that ran last comes after: as it was submitted, and closed (LateOrder).
  Clock ran;
  Clock ran_closed;
  Floor floor;                     ///< of the next operation
  std::uint64_t host_version = 0;  ///< Knowledge::version of the latest that was joined
};

class HappensBefore {
 public:
  /// `always`: otherwise it keeps track only between start() and stop().
  HappensBefore(bool always, bool threads_apart)
      : always_(always), on_(always), host_(threads_apart) {}

  [[nodiscard]] bool on() const { return on_; }
  /// Nothing that was submitted while it was off is ordered before anything.
  void start() { on_ = true; }
  void stop() { on_ = always_; }

  /// A new operation of a stream, after all that came before and all that the calling thread knows.
  /// The result is for run().
  Floor submit(StreamOrder& order);
  /// What is submitted to `order` later comes after `clock`.
  void order_after(StreamOrder& order, const Clock& clock) { order.clock.join(clock); }
  /// The same for what `from` comes after by now, where `order` comes after less and its own
  /// operations: in time for those alone.
  void branch_off(StreamOrder& order, const StreamOrder& from);
  /// An operation runs that was submitted to `order` after `before`; submit() gave `floor`. What it
  /// comes after, with what was found late: a closed clock, until the next operation of `order`
  /// runs. What is submitted from now on comes after that, too.
  const Clock& run(StreamOrder& order, const Clock& before, const Floor& floor);
  /// The operation `wait`, which run() has just begun on `order`, turns out to come after `clock`,
  /// which is closed.
  void order_late(StreamOrder& order, Stamp wait, const Clock& clock);

  /// Whether `stamp` comes before what is submitted to `order` now.
  [[nodiscard]] bool precedes(Stamp stamp, const StreamOrder& order) const;

  /// The calling thread has seen that all of `clock` is done.
  void host_sees(const Clock& clock);
  /// The calling thread itself does something, after all that it knows.
  Stamp host_acts();
  /// What the calling thread knows to be done.
  [[nodiscard]] const Clock& host() { return host_.current().clock; }
  HostClocks& hosts() { return host_; }
  /// Objects in `memory` are gone; a thread is.
  void forget_objects(std::span<const std::byte> memory);
  void end_thread(std::uint64_t thread);
  /// Adds to `clock` all work of those streams of `context` that are gone; 0: of every context.
  void add_retired(Handle context, Clock& clock) const;

  /// The stream is gone. A new stream can take its lane if the thread that creates it knows that
  /// the old work is done, so that everything on the lane is ordered.
  void retire(const StreamOrder& order, Handle context);

 private:
  struct Retired {
    Stamp latest;
    Handle context;
  };
  static constexpr Handle kNoContext = ~Handle{0};

  Stamp open_lane();

  bool always_;
  bool on_;
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
