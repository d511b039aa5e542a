// SPDX-License-Identifier: Apache-2.0
#include "memory/source/arena_segments.hpp"

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "berth/error.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth {
namespace {

/// The maximum that a stitched block may leave unused, as a fraction of what a hole would leave
/// unused. Measured on recorded traces and random sizes; without it, random sizes waste half as
/// much again.
constexpr double kStitchGain = 0.5;

/// Unmapped ranges considered at a time: a heap that returned much memory may have very many.
constexpr std::size_t kRangesLookedAt = 256;

/// Ranges returned at a time, for the same reason.
constexpr std::size_t kRangesReturned = 1024;

bool merges(const Block* neighbor, OwnerId owner) {
  return neighbor != nullptr && neighbor->state() == Block::State::free &&
         (neighbor->owner == owner || neighbor->owner == kUnowned);
}

std::size_t bytes_of(std::span<Block* const> blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::size_t{0},
                         [](std::size_t sum, const Block* block) { return sum + block->bytes; });
}

/// Transfers to `owner` as much unowned memory beside `held` as makes a hole of `bytes` with it.
void take_beside(BlockHeap& heap, const Block& held, OwnerId owner, std::size_t bytes) {
  std::size_t missing = bytes - std::min(bytes, held.bytes);
  Block* const neighbors[] = {held.prev.get(), held.next.get()};
  for (const Block* neighbor : neighbors) {
    if (merges(neighbor, owner) && neighbor->owner == owner)
      missing -= std::min(missing, neighbor->bytes);
  }
  for (Block* neighbor : neighbors) {
    if (missing == 0) return;
    if (!merges(neighbor, owner) || neighbor->owner == owner) continue;
    const std::size_t taken = std::min(missing, neighbor->bytes);
    const std::uintptr_t address =
        neighbor->address < held.address ? held.address - taken : held.end();
    heap.release_held(heap.hold(*neighbor, address, taken), Block::State::free, owner);
    missing -= taken;
  }
}

/// held -> free, of `owner`, with the adjacent memory that the block needs; without it, if the host
/// has no memory for that.
void release_beside(BlockHeap& heap, Block& held, OwnerId owner, std::size_t bytes) {
  try {
    take_beside(heap, held, owner, bytes);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as it says; or OutOfMemory
  }
  heap.release_held(held, Block::State::free, owner);
}

/// The lowest unmapped ranges, and the highest, which is usually the largest.
template <class Visit>
void for_some_unmapped(const BlockHeap& heap, const Visit& visit) {
  std::size_t visited = 0;
  for (const auto& [address, unmapped] : heap.unmapped()) {
    if (++visited == kRangesLookedAt) return visit(heap.unmapped().back());
    visit(*unmapped);
  }
}

/// The fewest granules of `unmapped` that make a block of `bytes` together with the free
/// neighbors.
std::optional<ArenaSegments::Candidate> fewest_granules(Block& unmapped, std::size_t bytes,
                                                        OwnerId owner, std::size_t granule_bytes) {
  const std::size_t before = merges(unmapped.prev, owner) ? unmapped.prev->bytes : 0;
  const std::size_t after = merges(unmapped.next, owner) ? unmapped.next->bytes : 0;
  // A neighbor that is large enough by itself became free after the search: one granule more makes
  // a certain fit.
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
bool ArenaSegments::is_cheaper(const Stitch& stitch, const Candidate& plain) const {
  const std::size_t fresh_bytes = stitch.fresh_granules * arena_.granule_bytes();
  if (fresh_bytes != plain.bytes) return fresh_bytes < plain.bytes;
  return stitch.left_behind <
         kStitchGain * Stitcher::kWorthOfWholeGranules * static_cast<double>(plain.left_behind);
}

ArenaSegments::ArenaSegments(DeviceContext& context, BlockHeap& heap, std::size_t granule_bytes,
                             std::size_t device_bytes, WindowRetention retention,
                             const MappingNotices& notices)
    : device_bytes_(device_bytes),
      retention_(retention),
      arena_(context, align_up(device_bytes, granule_bytes), granule_bytes, notices),
      windows_(context, arena_, kMappingsPerGranule * granules_of(arena_.bytes())),
      stitcher_(granule_bytes) {
  heap.set_granule_bytes(granule_bytes);
  heap.release_held(heap.add_segment(arena_.address(), arena_.bytes()), Block::State::unmapped,
                    kUnowned);
}

std::optional<ArenaSegments::Candidate> ArenaSegments::fewest_fresh(const BlockHeap& heap,
                                                                    std::size_t bytes,
                                                                    OwnerId owner) const {
  std::optional<Candidate> best;
  for_some_unmapped(heap, [&](Block& unmapped) {
    const auto candidate = fewest_granules(unmapped, bytes, owner, arena_.granule_bytes());
    if (candidate && (!best || candidate->bytes < best->bytes)) best = candidate;
  });
  return best;
}

std::optional<SegmentSource::Growth> ArenaSegments::plan_growth(BlockHeap& heap, std::size_t bytes,
                                                                OwnerId owner,
                                                                Stitching stitching) {
  std::optional<Candidate> best;
  if (stitching != Stitching::only) best = fewest_fresh(heap, bytes, owner);
  if (stitching != Stitching::no) {
    const std::size_t most = best ? best->bytes : heap.unmapped().bytes();
    const std::size_t fresh_max = stitching == Stitching::only ? 0 : most / arena_.granule_bytes();
    const Stitch* stitch = stitcher_.choose(heap, bytes, owner, fresh_max);
    if (stitch != nullptr && (!best || is_cheaper(*stitch, *best))) {
      return plan_stitch(heap, *stitch);
    }
  }
  if (!best) return std::nullopt;
  fresh_.assign(1, nullptr);  // held blocks must not be lost
  fresh_.front() = &heap.hold(*best->unmapped, best->address, best->bytes);
  return Growth{.bytes = best->bytes, .fresh = fresh_, .block_bytes = bytes};
}

/// The lowest range with room for all granules, or as many ranges as are needed.
void ArenaSegments::hold_fresh(BlockHeap& heap, std::size_t bytes) {
  Block* room = nullptr;
  for_some_unmapped(heap, [&](Block& unmapped) {
    if (room == nullptr && unmapped.bytes >= bytes) room = &unmapped;
  });
  for (std::size_t missing = bytes; missing > 0;) {
    Block& chosen = room != nullptr ? *room : *heap.unmapped().begin()->second;
    fresh_.push_back(nullptr);
    fresh_.back() =
        &heap.hold(chosen, chosen.address, std::min(missing, std::size_t{chosen.bytes}));
    missing -= fresh_.back()->bytes;
  }
}

SegmentSource::Growth ArenaSegments::plan_stitch(BlockHeap& heap, const Stitch& stitch) {
  extents_.clear();
  if (stitch.tail.bytes > 0) extents_.push_back(stitch.tail);
  extents_.insert(extents_.end(), stitch.whole.begin(), stitch.whole.end());
  if (stitch.head.bytes > 0) extents_.push_back(stitch.head);

  // From the top down, because the remainder below a held part is still the same block.
  order_.resize(extents_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, std::ranges::greater(),
                    [&](std::size_t index) { return extents_[index].address; });
  Growth growth{.bytes = stitch.fresh_granules * arena_.granule_bytes()};
  fresh_.clear();
  parts_.assign(extents_.size(), nullptr);
  try {
    for (const std::size_t index : order_) {
      const Extent& extent = extents_[index];
      parts_[index] = &heap.hold(*extent.source, extent.address, extent.bytes);
    }
    hold_fresh(heap, growth.bytes);
    const auto before_head = parts_.end() - (stitch.head.bytes > 0 ? 1 : 0);
    parts_.insert(before_head, fresh_.begin(), fresh_.end());
  } catch (...) {
    growth.fresh = fresh_;
    growth.parts = parts_;
    cancel_growth(heap, growth);
    throw;
  }
  growth.fresh = fresh_;
  growth.parts = parts_;
  growth.fresh_skipped_bytes = stitch.fresh_skipped_bytes;
  growth.fresh_surplus_bytes = growth.bytes - stitch.fresh_bytes - stitch.fresh_skipped_bytes;
  return growth;
}

bool ArenaSegments::map_fresh(const Growth& growth) {
  std::size_t mapped = 0;
  try {
    for (const Block* held : growth.fresh) {
      hold_refused(*held);
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
    unmap(*growth.fresh[index]);
  }
}

bool ArenaSegments::obtain(Growth& growth) {
  BERTH_CHECK(growth.bytes == bytes_of(growth.fresh));
  bool obtained = false;
  if (map_fresh(growth)) {
    try {
      obtained = growth.parts.empty() || map_window(growth);
    } catch (...) {
      unmap_fresh(growth, growth.fresh.size());
      windows_.cancel_drop();
      throw;
    }
    if (!obtained) unmap_fresh(growth, growth.fresh.size());
  }
  windows_.cancel_drop();
  if (obtained) {
    granules_mapped_ += granules_of(growth.bytes);
    keep_windows_in_bounds();
  }
  return obtained;
}

/// If the host has no memory for the block's record, the parts are free, and the next plan uses
/// them.
Block* ArenaSegments::finish_growth(BlockHeap& heap, const Growth& growth,
                                    std::size_t bytes_requested, OwnerId owner) {
  if (growth.parts.empty()) {
    release_beside(heap, *growth.fresh.front(), owner, growth.block_bytes);
    return nullptr;
  }
  const auto free = [&](Block& block) { heap.release_held(block, Block::State::free, owner); };
  try {
    heap.reserve_join();
  } catch (...) {
    for (Block* part : growth.parts) free(*part);
    return nullptr;
  }
  if (growth.fresh_skipped_bytes > 0) {
    Block& skipped = *growth.fresh.front();
    Block& used = heap.split(skipped, growth.fresh_skipped_bytes);
    std::ranges::replace(growth.parts, &skipped, &used);
    free(skipped);
  } else if (growth.fresh_surplus_bytes > 0) {
    Block& last = *growth.fresh.back();
    free(heap.split(last, last.bytes - growth.fresh_surplus_bytes));
  }
  return &heap.stitch(growth.parts, growth.address, bytes_requested, owner);
}

void ArenaSegments::cancel_growth(BlockHeap& heap, const Growth& growth) {
  windows_.cancel_drop();
  for (Block* part : growth.parts) {
    const bool is_fresh = std::ranges::find(growth.fresh, part) != growth.fresh.end();
    if (part != nullptr && !is_fresh) heap.release_held(*part, Block::State::free, part->owner);
  }
  for (Block* fresh : growth.fresh) {
    if (fresh != nullptr) heap.release_held(*fresh, Block::State::unmapped, kUnowned);
  }
}

std::vector<SegmentSource::Range> ArenaSegments::plan_return(BlockHeap& heap, std::size_t bytes) {
  using enum GranuleIndex::Kind;
  std::vector<Range> ranges;
  ranges.reserve(kRangesReturned);  // held blocks must not be lost
  for (std::size_t planned = 0; planned < bytes && ranges.size() < kRangesReturned;) {
    const Extent largest = heap.holes().largest(range, heap.free_blocks(kUnowned).holes());
    if (largest.bytes == 0) break;
    // From the top, so that the remaining memory is at low addresses.
    const std::size_t wanted =
        align_up(std::min(bytes - planned, largest.bytes), arena_.granule_bytes());
    try {
      heap.reserve_blocks(1);
      Block& held = heap.hold(*largest.source, largest.end() - wanted, wanted);
      ranges.push_back({.held = &held});
    } catch (...) {
      if (ranges.empty()) throw;
      break;  // fewer ranges may suffice
    }
    planned += wanted;
  }
  return ranges;
}

/// Memory that a window shows which the driver refused to unmap is still in use for the driver.
DriverRefusal ArenaSegments::unmap(const Block& held) noexcept {
  const DriverRefusal shown = hold_refused(held);
  return last_of(shown, arena_.unmap(held.address, held.bytes));
}

DriverRefusal ArenaSegments::give_back(Range& range) noexcept {
  BERTH_CHECK(granules_mapped_ >= granules_of(range.held->bytes));
  windows_.drop(granule_at(range.held->address), granule_at(range.held->end()));
  const DriverRefusal refusal = unmap(*range.held);
  granules_mapped_ -= granules_of(range.held->bytes);
  keep_windows_in_bounds();
  return refusal;
}

void ArenaSegments::separate_refused(BlockHeap& heap, std::vector<Range>& ranges,
                                     std::size_t index) noexcept {
  Block* part = ranges[index].held;
  const GranuleNumber first = granule_at(part->address);
  const GranuleNumber end = granule_at(part->end());
  std::size_t splits = 0;
  for (GranuleNumber granule = first + 1; granule < end; ++granule) {
    splits += arena_.is_usable(granule) != arena_.is_usable(granule - 1);
  }
  const auto state_of = [&](GranuleNumber granule) {
    return arena_.is_usable(granule) ? Range::State::refused : Range::State::gone;
  };
  try {
    ranges.reserve(ranges.size() + splits);
    heap.reserve_blocks(splits);
  } catch (const std::exception&) {  // an Error or std::bad_alloc
    ranges[index].state = Range::State::gone;
    return;
  }
  ranges[index].state = state_of(first);
  for (GranuleNumber granule = first + 1; granule < end; ++granule) {
    if (state_of(granule) == state_of(granule - 1)) continue;
    const std::size_t address = arena_.address() + granule * arena_.granule_bytes();
    part = &heap.split(*part, address - part->address);
    ranges.push_back({.held = part, .state = state_of(granule)});
  }
}

bool ArenaSegments::keep(const Range& range) noexcept {
  if (!arena_.keep(range.held->address, range.held->bytes)) return false;
  granules_mapped_ += granules_of(range.held->bytes);
  keep_windows_in_bounds();
  return true;
}

DriverRefusal ArenaSegments::sleep(const std::set<std::uintptr_t>& stitched) {
  if (retention_ == WindowRetention::bounded) {
    windows_.drop_unused([&](std::uintptr_t address, std::size_t bytes) {
      const auto first = stitched.lower_bound(address);
      return first != stitched.end() && *first < address + bytes;
    });
  }
  const DriverRefusal shown = windows_.sleep();
  return last_of(shown, arena_.sleep());
}

bool ArenaSegments::wake() {
  windows_.hold_refused();
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
  heap.release_held(*range.held, Block::State::unmapped, kUnowned);
}

}  // namespace berth
