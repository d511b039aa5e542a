// SPDX-License-Identifier: Apache-2.0
// The counters of an allocator as the two structs of C.
#pragma once

#include "capi/capi_convert.hpp"

namespace berth::capi {

/// The result of `count`, which is called once both structs have been checked.
template <class Count>
void write_counters_of(const Count& count, berth_memory_gauges* gauges,
                       berth_memory_totals* totals) {
  auto& gauges_out = require_struct(gauges, "gauges");
  auto& totals_out = require_struct(totals, "totals");
  const MemoryCounters counters = count();
  berth_memory_gauges levels{};
  berth_memory_totals sums{};
#define BERTH_COPY(name, help) levels.name = {counters.name.current, counters.name.peak};
  BERTH_MEMORY_GAUGES(BERTH_COPY)
#undef BERTH_COPY
#define BERTH_COPY(name, help) sums.name = counters.name;
  BERTH_MEMORY_TOTALS(BERTH_COPY)
#undef BERTH_COPY
  write_struct(levels, gauges_out);
  write_struct(sums, totals_out);
}

inline void write_counters(const MemoryCounters& counters, berth_memory_gauges* gauges,
                           berth_memory_totals* totals) {
  write_counters_of([&] { return counters; }, gauges, totals);
}

}  // namespace berth::capi
