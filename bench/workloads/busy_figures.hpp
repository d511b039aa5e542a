// SPDX-License-Identifier: Apache-2.0
// The measurements of a BusyProgram on one allocator.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "berth/memory_counters.hpp"

#include "driver/driver_table.hpp"

namespace berth::bench {

using DriverCalls = std::array<std::uint64_t, kDriverCallCount>;

inline std::uint64_t total(const DriverCalls& calls) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : calls) sum += count;
  return sum;
}
inline DriverCalls operator-(DriverCalls calls, const DriverCalls& before) {
  for (std::size_t index = 0; index < calls.size(); ++index) calls[index] -= before[index];
  return calls;
}
/// The totals since `before`; gauges unchanged.
inline MemoryCounters operator-(MemoryCounters counters, const MemoryCounters& before) {
#define BERTH_FIELD(name, help) counters.name -= before.name;
  BERTH_MEMORY_TOTALS(BERTH_FIELD)
#undef BERTH_FIELD
  return counters;
}

struct BusyPassFigures {
  std::uint64_t bytes_live_peak = 0;      ///< as requested
  std::uint64_t bytes_reserved_peak = 0;  ///< memory taken from the device
  DriverCalls calls{};                    ///< of the allocator
  DriverCalls calls_last_quarter{};  ///< from three quarters of the operations to the last frees
  std::optional<MemoryCounters>
      counters;                  ///< increases in this pass, if the allocator has counters
  std::uint64_t refused = 0;     ///< requests that ran out of memory
  double bound = 0;              ///< FluidBound::waste() of the passes up to this one
  double bound_in_its_time = 0;  ///< the same in the time that the allocator's calls take
  std::uint64_t virtual_ns = 0;  ///< of the host
  double mean_ns = 0;            ///< of CPU and simulator, one operation
  double p999_ns = 0;

  [[nodiscard]] std::uint64_t calls_of(DriverCall call) const {
    return calls[static_cast<std::size_t>(call)];
  }
};

struct BusyFigures {
  std::string trace;
  std::size_t operations = 0;  ///< of one pass
  std::size_t streams = 0;
  std::vector<BusyPassFigures> passes;

  [[nodiscard]] std::uint64_t bytes_live_peak() const {
    return std::ranges::max(passes, {}, &BusyPassFigures::bytes_live_peak).bytes_live_peak;
  }
  /// Peak reserved / peak live - 1 of the first `count` passes; 0 if no bytes were live.
  [[nodiscard]] double waste(std::size_t count) const {
    std::uint64_t live = 0;
    std::uint64_t reserved = 0;
    for (std::size_t pass = 0; pass < count; ++pass) {
      live = std::max(live, passes[pass].bytes_live_peak);
      reserved = std::max(reserved, passes[pass].bytes_reserved_peak);
    }
    return live == 0 ? 0 : static_cast<double>(reserved) / static_cast<double>(live) - 1;
  }
  /// Passes after the first in which reserved memory exceeded its earlier peak.
  [[nodiscard]] int passes_grown() const {
    std::uint64_t most = passes.front().bytes_reserved_peak;
    int grown = 0;
    for (const BusyPassFigures& pass : passes) {
      if (pass.bytes_reserved_peak > most) ++grown;
      most = std::max(most, pass.bytes_reserved_peak);
    }
    return grown;
  }
};

}  // namespace berth::bench
