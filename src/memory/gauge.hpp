// SPDX-License-Identifier: Apache-2.0
// Updates of a gauge and its peak.
//
// A gauge may temporarily be negative, if the frees of one thread have been counted before another
// thread's allocations of the same blocks (ledger.hpp). Code that reads a gauge first applies all
// ledgers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "berth/memory_counters.hpp"

namespace berth {

/// Adds a change to a gauge; `highest` is the highest value on the way, relative to the current
/// value.
inline void move_gauge(Gauge& gauge, std::int64_t by, std::int64_t highest) {
  const auto current = static_cast<std::int64_t>(gauge.current);
  const auto peak = static_cast<std::int64_t>(gauge.peak);
  gauge.peak = static_cast<std::uint64_t>(std::max(peak, current + highest));
  gauge.current = static_cast<std::uint64_t>(current + by);
}

inline void raise_gauge(Gauge& gauge, std::uint64_t by) {
  const auto change = static_cast<std::int64_t>(by);
  move_gauge(gauge, change, change);
}

inline void lower_gauge(Gauge& gauge, std::uint64_t by) {
  move_gauge(gauge, -static_cast<std::int64_t>(by), 0);
}

inline void set_gauge(Gauge& gauge, std::uint64_t value) {
  const auto change = static_cast<std::int64_t>(value - gauge.current);
  move_gauge(gauge, change, std::max<std::int64_t>(change, 0));
}

inline void reset_peaks(MemoryCounters& counters) {
#define BERTH_RESET(name, help) counters.name.peak = counters.name.current;
  BERTH_MEMORY_GAUGES(BERTH_RESET)
#undef BERTH_RESET
}

}  // namespace berth
