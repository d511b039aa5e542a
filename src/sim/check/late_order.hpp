// SPDX-License-Identifier: Apache-2.0
// Order that is known only when work runs: a wait for a value is ordered after the write of the
// value, which may be submitted long after the wait and its successors. A clock is closed if it
// also includes the predecessors of its waits; a join of closed clocks is closed. The clock of an
// operation is closed when it runs, because all earlier waits have run by then. Guarded by
// sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "sim/check/clock.hpp"

namespace berth::sim {

class LateOrder {
 public:
  /// Orders `wait` after `clock`, which is closed. Waits of one lane are added in their order.
  void learn(Stamp wait, const Clock& clock);
  /// Adds `clock` and all predecessors of its waits to `closed`, which is closed. `known`: the part
  /// of `clock` that `closed` already includes. The cost is proportional to the rest of `clock`.
  void include(Clock& closed, const Clock& clock, const Clock& known) const;

  /// The number of lanes looked up so far, in the whole process.
  static std::uint64_t lanes_examined();

 private:
  struct Wait {
    std::uint64_t time;
    Clock clock;  // closed
  };
  using Waits = std::deque<Wait>;  // of one lane; each has all that the one before it has

  /// The clock of the latest wait of a lane up to `stamp`; null if there is none, or if it is not
  /// later than `since`.
  [[nodiscard]] const Clock* find(Stamp stamp, std::uint64_t since) const;

  /// The number of waits kept for one stream. The order of older waits is dropped, which affects
  /// only work that has been pending since.
  static constexpr std::size_t kWaitsMax = 1024;

  std::unordered_map<Lane, Waits> lanes_;
  Clock with_waits_;  // has the lanes in which there are any
};

}  // namespace berth::sim
