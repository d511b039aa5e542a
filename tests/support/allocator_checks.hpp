// SPDX-License-Identifier: Apache-2.0
// The invariants of every allocator, and the relation of two blocks of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "berth/allocator.hpp"
#include "berth/statistics.hpp"

namespace berth::test {

/// Stops the test if a counter, a sum or an invariant of `allocator` is violated.
inline void check_whole(const Allocator& allocator) {
  allocator.validate();
  for (const std::string& line : find_discrepancies(allocator.snapshot())) FAIL(line);
}

inline std::uintptr_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

inline bool overlap(const void* a, std::size_t bytes_a, const void* b, std::size_t bytes_b) {
  return address_of(a) < address_of(b) + bytes_b && address_of(b) < address_of(a) + bytes_a;
}

/// Whether two counters have the same current values and totals; peaks are ignored.
inline bool same_levels(MemoryCounters a, MemoryCounters b) {
  a.bytes_metadata = b.bytes_metadata = {};  // the size of the records does not matter
  bool same = true;
#define BERTH_FIELD(name, help) same = same && a.name.current == b.name.current;
  BERTH_MEMORY_GAUGES(BERTH_FIELD)
#undef BERTH_FIELD
#define BERTH_FIELD(name, help) same = same && a.name == b.name;
  BERTH_MEMORY_TOTALS(BERTH_FIELD)
#undef BERTH_FIELD
  return same;
}

}  // namespace berth::test
