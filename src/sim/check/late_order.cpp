// SPDX-License-Identifier: Apache-2.0
#include "sim/check/late_order.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>
#include <vector>

namespace berth::sim {
namespace {

std::atomic<std::uint64_t> examined{0};

}  // namespace

std::uint64_t LateOrder::lanes_examined() {
  return examined.load(std::memory_order_relaxed);
}

const Clock* LateOrder::find(Stamp stamp, std::uint64_t since) const {
  examined.fetch_add(1, std::memory_order_relaxed);
  const auto lane = lanes_.find(stamp.lane);
  if (lane == lanes_.end()) return nullptr;
  const Waits& waits = lane->second;
  const auto later =
      std::upper_bound(waits.begin(), waits.end(), stamp.time,
                       [](std::uint64_t limit, const Wait& wait) { return limit < wait.time; });
  if (later == waits.begin() || std::prev(later)->time <= since) return nullptr;
  return &std::prev(later)->clock;
}

void LateOrder::learn(Stamp wait, const Clock& clock) {
  Waits& waits = lanes_[wait.lane];
  if (waits.empty()) with_waits_.include({wait.lane, 1});
  Clock closed = clock;
  if (!waits.empty()) closed.join(waits.back().clock);
  waits.push_back({wait.time, std::move(closed)});
  if (waits.size() > kWaitsMax) waits.pop_front();
}

void LateOrder::include(Clock& closed, const Clock& clock, const Clock& known) const {
  struct Late {
    Stamp stamp;
    std::uint64_t since;
  };
  std::vector<Late> lates;
  clock.for_each_new_time(known, with_waits_, [&](Stamp stamp) {
    lates.push_back({stamp, closed.time_of(stamp.lane)});
  });
  closed.join(clock, known);
  for (const auto& [stamp, since] : lates)
    if (const Clock* late = find(stamp, since)) closed.join(*late, known);
}

}  // namespace berth::sim
