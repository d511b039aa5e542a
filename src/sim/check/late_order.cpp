// SPDX-License-Identifier: Apache-2.0
#include "sim/check/late_order.hpp"

#include <algorithm>
#include <iterator>

namespace berth::sim {

const Clock* LateOrder::latest(const Waits& waits, std::uint64_t time) {
  const auto later =
      std::upper_bound(waits.begin(), waits.end(), time,
                       [](std::uint64_t limit, const Wait& wait) { return limit < wait.time; });
  return later == waits.begin() ? nullptr : &std::prev(later)->clock;
}

void LateOrder::learn(Stamp wait, const Clock& clock) {
  Clock closed = clock;
  for (bool news = true; news;) {
    news = false;
    for (const auto& [lane, waits] : lanes_)
      if (const Clock* more = latest(waits, closed.time_of(lane))) news |= closed.join(*more);
  }
  Waits& waits = lanes_[wait.lane];
  if (!waits.empty()) closed.join(waits.back().clock);
  waits.push_back({wait.time, std::move(closed)});
  if (waits.size() > kWaitsMax) waits.pop_front();
}

bool LateOrder::precedes(Stamp stamp, const Clock& clock) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
    const Clock* more = latest(entry.second, clock.time_of(entry.first));
    return more != nullptr && more->includes(stamp);
  });
}

}  // namespace berth::sim
