// SPDX-License-Identifier: Apache-2.0
// Inspection of all heaps as one.
#include <algorithm>
#include <iterator>

#include "memory/gauge.hpp"
#include "pinned/pinned_heaps.hpp"

namespace berth {
namespace {

void add(MemoryCounters& sum, const MemoryCounters& counters) {
#define BERTH_ADD(name, help)                \
  sum.name.current += counters.name.current; \
  sum.name.peak += counters.name.peak;
  BERTH_MEMORY_GAUGES(BERTH_ADD)
#undef BERTH_ADD
#define BERTH_ADD(name, help) sum.name += counters.name;
  BERTH_MEMORY_TOTALS(BERTH_ADD)
#undef BERTH_ADD
}

/// Of segments in the order of their addresses.
bool has_overlaps(const std::vector<SegmentInfo>& segments) {
  return std::ranges::adjacent_find(segments, [](const SegmentInfo& one, const SegmentInfo& next) {
           return one.address + one.bytes > next.address;
         }) != segments.end();
}

}  // namespace

FoundBlock PinnedHeaps::look_up(const void* data) const {
  FoundBlock found;
  for_each([&](Heap& heap) {
    if (found.block == nullptr) found = heap.allocator.look_up(data);
  });
  if (found.block != nullptr) return found;
  if (const auto range = registrations_.find(data)) found.block = range->data;
  return found;
}

std::optional<PinnedRange> PinnedHeaps::find(const void* data) const {
  if (const auto range = registrations_.find(data)) {
    return PinnedRange{range->data, range->bytes, PinnedKind::registered, std::nullopt};
  }
  std::optional<PinnedRange> found;
  for_each([&](Heap& heap) {
    if (found) return;
    if (const auto live = heap.allocator.find_live(data)) {
      found = PinnedRange{live->data, live->bytes_requested, heap.kind, heap.node};
    }
  });
  return found;
}

MemoryCounters PinnedHeaps::counters() const {
  origin_.require_here("pinned");
  MemoryCounters sum;
  for_each([&](Heap& heap) { add(sum, heap.allocator.counters()); });
  return sum;
}

PinnedGrowthCounters PinnedHeaps::growth_counters() const {
  PinnedGrowthCounters sum;
  for_each([&](Heap& heap) {
    sum.segments_registered += heap.segments->registered();
    sum.segments_from_driver += heap.segments->allocated();
    sum.segments_in_background += heap.grown_ahead;
    sum.failures_in_background += heap.failed_ahead;
  });
  const std::uint64_t all = sum.segments_registered + sum.segments_from_driver;
  sum.segments_by_callers = all - std::min(all, sum.segments_in_background);
  return sum;
}

void PinnedHeaps::reset_peaks() {
  for_each([](Heap& heap) { heap.allocator.reset_peaks(); });
}

// Each heap is read at one moment, and memory may pass from one to another in between.
MemorySnapshot PinnedHeaps::snapshot() const {
  origin_.require_here("pinned");
  MemorySnapshot all = read_heaps();
  while (has_overlaps(all.segments)) all = read_heaps();
  return all;
}

MemorySnapshot PinnedHeaps::read_heaps() const {
  MemorySnapshot all;
  all.allocator = "pinned";
  for_each([&](Heap& heap) {
    MemorySnapshot one = heap.allocator.snapshot();
    add(all.counters, one.counters);
    all.largest_free_block_bytes =
        std::max(all.largest_free_block_bytes, one.largest_free_block_bytes);
    for (SegmentInfo& segment : one.segments) {
      segment.numa_node = heap.node;
      segment.write_combined = heap.kind == PinnedKind::write_combined;
    }
    std::ranges::move(one.segments, std::back_inserter(all.segments));
  });
  std::ranges::sort(all.segments, {}, &SegmentInfo::address);
  return all;
}

void PinnedHeaps::validate() const {
  for_each([](Heap& heap) { heap.allocator.validate(); });
}

}  // namespace berth
