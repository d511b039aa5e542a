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

#include "sim/handle_table.hpp"

namespace berth::sim {

/// A place in a clock: one stream at a time.
using Lane = std::uint32_t;

/// The operation number `time` of a lane, from 1.
struct Stamp {
  Lane lane = 0;
  std::uint64_t time = 0;
};

/// Which operations of each lane come before some moment.
class Clock {
 public:
  [[nodiscard]] bool includes(Stamp stamp) const {
    return stamp.lane < times_.size() && times_[stamp.lane] >= stamp.time;
  }
  /// Both say whether that was news.
  bool include(Stamp stamp);
  bool join(const Clock& other);

 private:
  std::vector<std::uint64_t> times_;
};

/// What a stream keeps: its latest operation, and all that comes before it.
struct StreamOrder {
  Stamp latest;  ///< time 0 before the first
  Clock clock;
  std::uint64_t host_version = 0;  ///< of what the host knew at the latest submission
};

class HappensBefore {
 public:
  /// A new operation of a stream, after all that came before and all that the host knows.
  void submit(StreamOrder& order);
  /// What is submitted to `order` later comes after `clock`.
  void order_after(StreamOrder& order, const Clock& clock) { order.clock.join(clock); }

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

  Clock host_;
  std::uint64_t host_version_ = 1;
  Lane lanes_ = 0;
  std::vector<Retired> retired_;
};

}  // namespace berth::sim
