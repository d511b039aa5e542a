// SPDX-License-Identifier: Apache-2.0
// What is ordered before what, by the rules of streams and events alone and not by when work happened
// to run: vector clocks, one component a stream.
//
// All threads of the host count as one. The simulator cannot see how they order one another, and an
// order that it does not know would be reported as a race; so whatever one thread has waited for is
// ordered before whatever any thread submits later. Guarded by sim::mutex.
// Source: Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988;
// Mattern, "Virtual time and global states of distributed systems", 1989.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/check/clock.hpp"
#include "sim/check/late_order.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

/// What a stream keeps: its latest operation, and all that comes before it.
struct StreamOrder {
  Stamp latest;  ///< time 0 before the first
  Clock clock;
  std::uint64_t host_version = 0;  ///< of what the host knew at the latest submission
};

class HappensBefore {
 public:
  /// `always`: otherwise it keeps track only between start() and stop().
  explicit HappensBefore(bool always) : always_(always), on_(always) {}

  [[nodiscard]] bool on() const { return on_; }
  /// Nothing that was submitted while it was off is ordered before anything.
  void start() { on_ = true; }
  void stop() { on_ = always_; }

  /// A new operation of a stream, after all that came before and all that the host knows.
  void submit(StreamOrder& order);
  /// What is submitted to `order` later comes after `clock`.
  void order_after(StreamOrder& order, const Clock& clock) { order.clock.join(clock); }
  /// The operation `wait`, submitted long ago, turns out to come after `clock`.
  void order_late(Stamp wait, const Clock& clock) { late_.learn(wait, clock); }

  /// Whether `stamp` comes before what is after `clock`.
  [[nodiscard]] bool precedes(Stamp stamp, const Clock& clock) const {
    return clock.includes(stamp) || late_.precedes(stamp, clock);
  }

  /// The host has seen that all of `clock` is done.
  void host_sees(const Clock& clock);
  /// Adds to `clock` all work of those streams of `context` that are gone; 0: of every context.
  void add_retired(Handle context, Clock& clock) const;
  [[nodiscard]] const Clock& host() const { return host_; }

  /// The stream is gone. Its lane serves another one once the host knows that its work is done:
  /// everything on the lane is then really ordered.
  void retire(const StreamOrder& order, Handle context);

 private:
  struct Retired {
    Stamp latest;
    Handle context;
  };

  Stamp open_lane();

  bool always_;
  bool on_;
  Clock host_;
  std::uint64_t host_version_ = 1;
  Lane lanes_ = 0;
  std::vector<Retired> retired_;
  LateOrder late_;
};

}  // namespace berth::sim
