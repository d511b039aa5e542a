// SPDX-License-Identifier: Apache-2.0
// The windows of an arena: when one is mapped, found again, or given up.
#include <algorithm>

#include "memory/source/arena_segments.hpp"

namespace berth {
namespace {

HeapExtent extent_of_part(const Block* part) {
  return {part->address, part->bytes};
}
HeapExtent extent_of_part(const HeapExtent& part) {
  return part;
}

}  // namespace

/// If no work is pending on a granule, all uses of a window with this granule are over, because
/// every block in a window has bytes of each of its granules.
void ArenaSegments::set_idle_memory(const BlockHeap& heap, std::span<const Freed> idle) {
  const GranuleIndex& holes = heap.holes_of_all();
  windows_.choose_victims([&](GranuleNumber granule) {
    const Block* const block = holes.range_with(granule).source;
    if (block == nullptr) return false;
    if (block->owner == kUnowned) return true;
    const auto freed = std::ranges::find(idle, block->owner, &Freed::owner);
    return freed != idle.end() && block->freed_at <= freed->serial;
  });
}

void ArenaSegments::keep_windows_in_bounds() {
  windows_.set_mappings_max(
      kMappingsPerGranule *
      std::max(std::min(kGranulesMin, granules_of(arena_.bytes())), granules_mapped_));
}

template <class Parts>
std::optional<std::uintptr_t> ArenaSegments::find_stitched(const Parts& parts,
                                                           std::uintptr_t first) {
  const auto has_gap = [](const auto& a, const auto& b) {
    return extent_of_part(a).end() != extent_of_part(b).address;
  };
  if (std::ranges::adjacent_find(parts, has_gap) == std::ranges::end(parts)) return first;
  sequence_.clear();
  for (const auto& part : parts) {
    const HeapExtent extent = extent_of_part(part);
    sequence_.append(granule_at(extent.address), granule_at(extent.end() - 1) + 1);
  }
  const std::optional<std::uintptr_t> window = windows_.find(sequence_);
  if (!window) return std::nullopt;
  return *window + first % arena_.granule_bytes();
}

std::optional<std::uintptr_t> ArenaSegments::address_of_stitched(
    std::span<const HeapExtent> parts) {
  return find_stitched(parts, parts.front().address);
}

bool ArenaSegments::map_window(Growth& growth) {
  const std::span<Block*> parts = growth.parts;
  const bool begins_fresh = !growth.fresh.empty() && parts.front() == growth.fresh.front();
  const std::uintptr_t first =
      parts.front()->address + (begins_fresh ? growth.fresh_skipped_bytes : 0);
  if (const auto found = find_stitched(parts, first)) {
    growth.address = *found;
    return true;
  }
  windows_.drop_victims();
  const std::optional<std::uintptr_t> window = windows_.map(sequence_);
  growth.granules_remapped = sequence_.size();
  if (!window) return false;
  growth.address = *window + first % arena_.granule_bytes();
  return true;
}

}  // namespace berth
