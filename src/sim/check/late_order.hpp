// SPDX-License-Identifier: Apache-2.0
// Order that is found only when work runs: a wait for a value comes after whatever wrote the value,
// which may be submitted long after the wait and all that follows it. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <deque>
#include <map>

#include "sim/check/clock.hpp"

namespace berth::sim {

class LateOrder {
 public:
  /// `wait` comes after `clock`. Waits of one lane are learned in their order.
  void learn(Stamp wait, const Clock& clock);
  /// Whether `stamp` comes before a wait in `clock`.
  [[nodiscard]] bool precedes(Stamp stamp, const Clock& clock) const;

 private:
  struct Wait {
    std::uint64_t time;
    Clock clock;  // closed: also all that its own waits come after
  };
  using Waits = std::deque<Wait>;  // of one lane; each has all that the one before it has

  /// What the waits of a lane up to `time` come after; null where that is nothing.
  static const Clock* latest(const Waits& waits, std::uint64_t time);

  /// So many waits of one stream are remembered: order through older ones is forgotten, which only
  /// concerns work that has been pending since.
  static constexpr std::size_t kWaitsMax = 1024;

  std::map<Lane, Waits> lanes_;
};

}  // namespace berth::sim
