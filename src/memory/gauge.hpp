// SPDX-License-Identifier: Apache-2.0
// Changing a gauge: its peak follows, and it never falls below zero.
#pragma once

#include <algorithm>

#include "berth/memory_counters.hpp"

#include "base/check.hpp"

namespace berth {

inline void set_gauge(Gauge& gauge, std::uint64_t value) {
  gauge.current = value;
  gauge.peak = std::max(gauge.peak, value);
}

inline void raise_gauge(Gauge& gauge, std::uint64_t by) {
  set_gauge(gauge, gauge.current + by);
}

inline void lower_gauge(Gauge& gauge, std::uint64_t by) {
  BERTH_CHECK(gauge.current >= by);
  gauge.current -= by;
}

}  // namespace berth
