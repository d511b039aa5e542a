// SPDX-License-Identifier: Apache-2.0
// Order that is found only when work runs: a wait for a value comes after whatever wrote the value,
// which may be submitted long after the wait and all that follows it. A clock is closed if it has
// what its waits come after, too; a join of closed clocks is closed. Work closes its clock when it
// runs, since all waits before it have run by then. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "sim/check/clock.hpp"

namespace berth::sim {

class LateOrder {
 public:
  /// `wait` comes after `clock`, which is closed. Waits of one lane are learned in their order.
  void learn(Stamp wait, const Clock& clock);
  /// Adds to `closed`, which is closed, `clock` and all that the waits in it come after. `known`:
  /// of `clock` what `closed` has already. Costs what `clock` has beyond `known`.
  void include(Clock& closed, const Clock& clock, const Clock& known) const;

  /// How many lanes have been looked up so far, in the whole process.
  static std::uint64_t lanes_examined();

 private:
  struct Wait {
    std::uint64_t time;
    Clock clock;  // closed
  };
  using Waits = std::deque<Wait>;  // of one lane; each has all that the one before it has

  /// What the latest wait of a lane up to `stamp` comes after; null where there is none, or where
  /// it is not later than `since`.
  [[nodiscard]] const Clock* find(Stamp stamp, std::uint64_t since) const;

  /// So many waits of one stream are remembered: order through older ones is forgotten, which only
  /// concerns work that has been pending since.
  static constexpr std::size_t kWaitsMax = 1024;

  std::unordered_map<Lane, Waits> lanes_;
  Clock with_waits_;  // has the lanes in which there are any
};

}  // namespace berth::sim
