// SPDX-License-Identifier: Apache-2.0
#include "memory/arena_segments.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {
namespace {

/// Address space costs nothing, and holes in it that are too small for a request are lost to it:
/// four times the memory is room enough for any mix of sizes seen, and stays far below the 47 bits
/// there are.
constexpr std::size_t kAddressSpaceFactor = 4;

bool joins(const Block* neighbour, OwnerId owner) {
  return neighbour != nullptr && neighbour->state() == Block::State::free &&
         (neighbour->owner == owner || neighbour->owner == kUnowned);
}

struct Candidate {
  Block* unmapped = nullptr;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
};

/// The fewest granules of `unmapped` that make a block of `bytes` together with the free
/// neighbours.
std::optional<Candidate> fewest_granules(Block& unmapped, std::size_t bytes, OwnerId owner,
                                         std::size_t granule_bytes) {
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
    return Candidate{&unmapped, unmapped.address, upwards};
  }
  if (downwards <= unmapped.bytes) {
    return Candidate{&unmapped, unmapped.end() - downwards, downwards};
  }
  if (before + unmapped.bytes + after >= bytes) {
    return Candidate{&unmapped, unmapped.address, unmapped.bytes};
  }
  return std::nullopt;
}

}  // namespace

ArenaSegments::ArenaSegments(DeviceContext& context, BlockHeap& heap, std::size_t granule_bytes,
                             std::size_t device_bytes)
    : device_bytes_(device_bytes),
      arena_(context, align_up(kAddressSpaceFactor * device_bytes, granule_bytes), granule_bytes) {
  heap.settle(heap.add_segment(arena_.address(), arena_.bytes()), Block::State::unmapped, kUnowned);
}

std::optional<SegmentSource::Growth> ArenaSegments::plan_growth(BlockHeap& heap, std::size_t bytes,
                                                                OwnerId owner) {
  std::optional<Candidate> best;
  for (const auto& [address, unmapped] : heap.unmapped()) {
    const auto candidate = fewest_granules(*unmapped, bytes, owner, arena_.granule_bytes());
    if (candidate && (!best || candidate->bytes < best->bytes)) best = candidate;
  }
  if (!best) return std::nullopt;
  Block& held = heap.hold(*best->unmapped, best->address, best->bytes);
  return Growth{.bytes = best->bytes, .held = &held};
}

bool ArenaSegments::obtain(Growth& growth) {
  return arena_.map(growth.held->address, growth.held->bytes);
}

void ArenaSegments::finish_growth(BlockHeap& heap, const Growth& growth, OwnerId owner) {
  for (Block* neighbour : {growth.held->prev.get(), growth.held->next.get()}) {
    if (!joins(neighbour, owner) || neighbour->owner == owner) continue;
    // Unowned memory beside the new granules joins them, or the two would stay apart.
    heap.settle(heap.hold(*neighbour, neighbour->address, neighbour->bytes), Block::State::free,
                owner);
  }
  heap.settle(*growth.held, Block::State::free, owner);
}

void ArenaSegments::cancel_growth(BlockHeap& heap, const Growth& growth) {
  heap.settle(*growth.held, Block::State::unmapped, kUnowned);
}

std::vector<SegmentSource::Range> ArenaSegments::plan_return(BlockHeap& heap, std::size_t bytes) {
  std::vector<Block*> largest_first;
  heap.free_blocks(kUnowned).for_each([&](Block& block) { largest_first.push_back(&block); });
  std::reverse(largest_first.begin(), largest_first.end());
  std::vector<Range> ranges;
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
    ranges.push_back({&heap.hold(*block, end - wanted, wanted)});
    planned += wanted;
  }
  return ranges;
}

bool ArenaSegments::give_back(const Range& range) noexcept {
  arena_.unmap(range.held->address, range.held->bytes);
  return true;  // what the driver does not unmap, the arena maps again without asking
}

void ArenaSegments::finish_return(BlockHeap& heap, const Range& range) {
  heap.settle(*range.held, Block::State::unmapped, kUnowned);
}

}  // namespace berth
