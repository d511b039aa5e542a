// SPDX-License-Identifier: Apache-2.0
#include "memory/source/arena_segments.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {
namespace {

/// Mappings that windows keep, for each granule that the device has room for. Recorded programs ask
/// for up to nine; the rest is margin. Address space follows from it, 3 TiB on a device of 80 GiB:
/// far below the 128 TiB that there are.
constexpr std::size_t kWindowsPerGranule = 16;

/// What a stitched block may leave behind at most, as part of what a hole would. Measured on recorded
/// traces and random sizes; without it, random sizes waste half as much again.
constexpr double kStitchGain = 0.5;

bool joins(const Block* neighbour, OwnerId owner) {
  return neighbour != nullptr && neighbour->state() == Block::State::free &&
         (neighbour->owner == owner || neighbour->owner == kUnowned);
}

/// held -> free, of `owner`, together with unowned memory beside it, from which it would stay apart.
void settle_beside(BlockHeap& heap, Block& held, OwnerId owner) {
  for (Block* neighbour : {held.prev.get(), held.next.get()}) {
    if (!joins(neighbour, owner) || neighbour->owner == owner) continue;
    heap.settle(heap.hold(*neighbour, neighbour->address, neighbour->bytes), Block::State::free,
                owner);
  }
  heap.settle(held, Block::State::free, owner);
}

/// The fewest granules of `unmapped` that make a block of `bytes` together with the free
/// neighbours.
std::optional<ArenaSegments::Candidate> fewest_granules(Block& unmapped, std::size_t bytes,
                                                        OwnerId owner, std::size_t granule_bytes) {
  const std::size_t before = joins(unmapped.prev, owner) ? unmapped.prev->bytes : 0;
  const std::size_t after = joins(unmapped.next, owner) ? unmapped.next->bytes : 0;
  // A neighbour large enough by itself was free after the search that found no fit: one granule
  // more makes a fit for certain.
  const auto missing = [&](std::size_t have) {
    return align_up(bytes > have ? bytes - have : 1, granule_bytes);
  };
  const std::size_t upwards = missing(before);
  const std::size_t downwards = missing(after);
  if (upwards <= unmapped.bytes && upwards <= downwards) {
    return ArenaSegments::Candidate{&unmapped, unmapped.address, upwards, before + upwards - bytes};
  }
  if (downwards <= unmapped.bytes) {
    return ArenaSegments::Candidate{&unmapped, unmapped.end() - downwards, downwards,
                                    after + downwards - bytes};
  }
  if (before + unmapped.bytes + after >= bytes) {
    return ArenaSegments::Candidate{&unmapped, unmapped.address, unmapped.bytes,
                                    before + unmapped.bytes + after - bytes};
  }
  return std::nullopt;
}

}  // namespace

/// A stitched block costs mappings, so it must save memory: now, or by leaving much less behind.
bool ArenaSegments::is_worth_it(const Stitch& stitch, const Candidate& plain) const {
  const std::size_t fresh_bytes = stitch.fresh_granules * arena_.granule_bytes();
  if (fresh_bytes != plain.bytes) return fresh_bytes < plain.bytes;
  return stitch.left_behind <
         kStitchGain * Stitcher::kWorthOfWholeGranules * static_cast<double>(plain.left_behind);
}

ArenaSegments::ArenaSegments(DeviceContext& context, BlockHeap& heap, std::size_t granule_bytes,
                             std::size_t device_bytes, Windowing windowing)
    : device_bytes_(device_bytes),
      windowing_(windowing),
      arena_(context, align_up(device_bytes, granule_bytes), granule_bytes),
      windows_(context, arena_, kWindowsPerGranule * (arena_.bytes() / granule_bytes)),
      stitcher_(granule_bytes) {
  heap.set_granule_bytes(granule_bytes);
  heap.settle(heap.add_segment(arena_.address(), arena_.bytes()), Block::State::unmapped, kUnowned);
}

std::optional<SegmentSource::Growth> ArenaSegments::plan_growth(BlockHeap& heap, std::size_t bytes,
                                                                OwnerId owner, Joining joining) {
  std::optional<Candidate> best;
  std::size_t unmapped_bytes = 0;
  for (const auto& [address, unmapped] : heap.unmapped()) {
    unmapped_bytes += unmapped->bytes;
    const auto candidate = fewest_granules(*unmapped, bytes, owner, arena_.granule_bytes());
    if (candidate && (!best || candidate->bytes < best->bytes)) best = candidate;
  }
  if (joining == Joining::yes) {
    const std::size_t fresh_max = (best ? best->bytes : unmapped_bytes) / arena_.granule_bytes();
    const Stitch* stitch = stitcher_.choose(heap, bytes, owner, fresh_max);
    if (stitch != nullptr && (!best || is_worth_it(*stitch, *best))) {
      return plan_stitch(heap, *stitch);
    }
  }
  if (!best) return std::nullopt;
  return Growth{.bytes = best->bytes,
                .fresh = {&heap.hold(*best->unmapped, best->address, best->bytes)}};
}

std::vector<Block*> ArenaSegments::hold_unmapped(BlockHeap& heap, std::size_t bytes) {
  std::vector<Block*> held;
  while (bytes > 0) {
    // One range that has room for all, or as many as it takes.
    Block* chosen = nullptr;
    for (const auto& [address, unmapped] : heap.unmapped()) {
      if (chosen == nullptr || (chosen->bytes < bytes && unmapped->bytes > chosen->bytes)) {
        chosen = unmapped;
      }
    }
    const std::size_t taken = std::min(bytes, chosen->bytes);
    held.push_back(&heap.hold(*chosen, chosen->address, taken));
    bytes -= taken;
  }
  return held;
}

SegmentSource::Growth ArenaSegments::plan_stitch(BlockHeap& heap, const Stitch& stitch) {
  std::vector<Extent> extents;
  if (stitch.tail.bytes > 0) extents.push_back(stitch.tail);
  extents.insert(extents.end(), stitch.whole.begin(), stitch.whole.end());
  if (stitch.head.bytes > 0) extents.push_back(stitch.head);

  // From the top down, because what remains below a part that is held is still the same block.
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::ranges::greater(),
                    [&](std::size_t index) { return extents[index].address; });
  std::vector<Block*> parts(extents.size());
  for (const std::size_t index : order) {
    const Extent& extent = extents[index];
    parts[index] = &heap.hold(*extent.source, extent.address, extent.bytes);
  }

  Growth growth{.bytes = stitch.fresh_granules * arena_.granule_bytes()};
  growth.fresh = hold_unmapped(heap, growth.bytes);
  const auto before_head = parts.end() - (stitch.head.bytes > 0 ? 1 : 0);
  parts.insert(before_head, growth.fresh.begin(), growth.fresh.end());
  growth.parts = std::move(parts);
  growth.fresh_skipped_bytes = stitch.fresh_skipped_bytes;
  growth.fresh_surplus_bytes = growth.bytes - stitch.fresh_bytes - stitch.fresh_skipped_bytes;
  return growth;
}

/// Of granules on which no work is pending: all uses of a window that shows one of them are over, because
/// every block in a window has bytes of each granule of it.
void ArenaSegments::note_idle_memory(const BlockHeap& heap, std::span<const OwnerId> owners,
                                     std::uint64_t serial) {
  idle_.assign(arena_.bytes() / arena_.granule_bytes(), false);
  const auto note = [&](const Block& block) {
    const GranuleNumber end = granule_at(align_down(block.end(), arena_.granule_bytes()));
    for (GranuleNumber granule = granule_at(align_up(block.address, arena_.granule_bytes()));
         granule < end; ++granule) {
      idle_[granule] = true;
    }
  };
  heap.free_blocks(kUnowned).for_each(note);
  for (const OwnerId owner : owners) {
    heap.free_blocks(owner).for_each([&](const Block& block) {
      if (block.freed_at <= serial) note(block);
    });
  }
}

bool ArenaSegments::map_fresh(const Growth& growth) {
  std::size_t mapped = 0;
  try {
    for (const Block* held : growth.fresh) {
      if (!arena_.map(held->address, held->bytes)) break;
      ++mapped;
    }
  } catch (...) {
    unmap_fresh(growth, mapped);
    throw;
  }
  if (mapped == growth.fresh.size()) return true;
  unmap_fresh(growth, mapped);
  return false;
}

void ArenaSegments::unmap_fresh(const Growth& growth, std::size_t count) noexcept {
  for (std::size_t index = 0; index < count; ++index) {
    arena_.unmap(growth.fresh[index]->address, growth.fresh[index]->bytes);
  }
}

bool ArenaSegments::map_window(Growth& growth) {
  const std::vector<Block*>& parts = growth.parts;
  const bool is_contiguous = std::ranges::adjacent_find(parts, [](const Block* a, const Block* b) {
                               return a->end() != b->address;
                             }) == parts.end();
  const bool begins_fresh = !growth.fresh.empty() && parts.front() == growth.fresh.front();
  const std::uintptr_t first =
      parts.front()->address + (begins_fresh ? growth.fresh_skipped_bytes : 0);
  if (is_contiguous) {
    growth.address = first;
    return true;
  }
  sequence_.clear();
  for (const Block* part : parts) {
    for (GranuleNumber granule = granule_at(part->address); granule <= granule_at(part->end() - 1);
         ++granule) {
      sequence_.push_back(granule);
    }
  }
  std::optional<std::uintptr_t> window = windows_.find(sequence_);
  if (!window) {
    if (!idle_.empty()) {
      windows_.drop_to_bound([&](GranuleNumber granule) { return idle_[granule]; });
      idle_.clear();
    }
    window = windows_.map(sequence_);
    growth.granules_remapped = sequence_.size();
  }
  if (!window) return false;
  growth.address = *window + first % arena_.granule_bytes();
  return true;
}

bool ArenaSegments::obtain(Growth& growth) {
  if (!map_fresh(growth)) return false;
  if (growth.parts.empty()) return true;
  try {
    if (map_window(growth)) return true;
  } catch (...) {
    unmap_fresh(growth, growth.fresh.size());
    throw;
  }
  unmap_fresh(growth, growth.fresh.size());
  return false;
}

Block* ArenaSegments::finish_growth(BlockHeap& heap, const Growth& growth,
                                    std::size_t bytes_requested, OwnerId owner) {
  if (growth.parts.empty()) {
    settle_beside(heap, *growth.fresh.front(), owner);
    return nullptr;
  }
  std::vector<Block*> parts = growth.parts;
  const auto free = [&](Block& block) { heap.settle(block, Block::State::free, owner); };
  if (growth.fresh_skipped_bytes > 0) {
    Block& skipped = *growth.fresh.front();
    Block& used = heap.split(skipped, growth.fresh_skipped_bytes);
    std::ranges::replace(parts, &skipped, &used);
    free(skipped);
  } else if (growth.fresh_surplus_bytes > 0) {
    Block& last = *growth.fresh.back();
    free(heap.split(last, last.bytes - growth.fresh_surplus_bytes));
  }
  return &heap.join(parts, growth.address, bytes_requested, owner);
}

void ArenaSegments::cancel_growth(BlockHeap& heap, const Growth& growth) {
  for (Block* fresh : growth.fresh) heap.settle(*fresh, Block::State::unmapped, kUnowned);
  for (Block* part : growth.parts) {
    if (std::ranges::find(growth.fresh, part) != growth.fresh.end()) continue;
    heap.settle(*part, Block::State::free, part->owner);
  }
}

std::vector<SegmentSource::Range> ArenaSegments::plan_return(BlockHeap& heap, std::size_t bytes) {
  std::vector<Block*> largest_first;
  heap.free_blocks(kUnowned).for_each([&](Block& block) { largest_first.push_back(&block); });
  std::reverse(largest_first.begin(), largest_first.end());
  std::vector<Range> ranges;
  ranges.reserve(largest_first.size());  // what is held must not be lost
  std::size_t planned = 0;
  for (Block* block : largest_first) {
    if (planned >= bytes) break;
    const std::uintptr_t base = arena_.address();
    const std::uintptr_t begin = base + align_up(block->address - base, arena_.granule_bytes());
    const std::uintptr_t end = base + align_down(block->end() - base, arena_.granule_bytes());
    if (begin >= end) continue;
    // From the top, so that what stays mapped stays low.
    const std::size_t wanted =
        align_up(std::min(bytes - planned, end - begin), arena_.granule_bytes());
    ranges.push_back({.held = &heap.hold(*block, end - wanted, wanted)});
    planned += wanted;
  }
  return ranges;
}

bool ArenaSegments::give_back(const Range& range) noexcept {
  windows_.drop(granule_at(range.held->address), granule_at(range.held->end()));
  arena_.unmap(range.held->address, range.held->bytes);
  return true;  // what the driver does not unmap, the arena maps again without asking
}

std::size_t ArenaSegments::sleep(const std::set<std::uintptr_t>& stitched) {
  if (windowing_ == Windowing::bounded) {
    windows_.drop_unused([&](std::uintptr_t address, std::size_t bytes) {
      const auto first = stitched.lower_bound(address);
      return first != stitched.end() && *first < address + bytes;
    });
  }
  windows_.sleep();
  return arena_.sleep();
}

bool ArenaSegments::wake() {
  if (!arena_.wake()) return false;
  try {
    if (windows_.wake()) return true;
  } catch (...) {
    arena_.sleep();
    throw;
  }
  arena_.sleep();
  return false;
}

void ArenaSegments::finish_return(BlockHeap& heap, Range&& range) {
  heap.settle(*range.held, Block::State::unmapped, kUnowned);
}

}  // namespace berth
