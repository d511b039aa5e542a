// SPDX-License-Identifier: Apache-2.0
// The counters of an allocator as a struct. memory_counters.h lists them with their meaning.
#pragma once

#include <cstdint>

#include "berth/cpp20.hpp"
#include "berth/memory_counters.h"

namespace berth {

/// A level: its current value, and its peak since the last reset.
struct Gauge {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;  ///< peaks of different gauges need not coincide in time
};

/// Gauges and totals of an allocator.
struct MemoryCounters {
#define BERTH_FIELD(name, help) Gauge name;
  BERTH_MEMORY_GAUGES(BERTH_FIELD)
#undef BERTH_FIELD
#define BERTH_FIELD(name, help) std::uint64_t name = 0;
  BERTH_MEMORY_TOTALS(BERTH_FIELD)
#undef BERTH_FIELD
};

}  // namespace berth
