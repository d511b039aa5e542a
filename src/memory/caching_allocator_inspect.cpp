// SPDX-License-Identifier: Apache-2.0
// Inspection of the allocator's state, which does not change it.
#include <algorithm>

#include "base/check.hpp"
#include "memory/caching_allocator.hpp"
#include "memory/source/mapping_notices.hpp"

namespace berth {
namespace {

/// The mapped part of the heap: everything except unmapped address space.
bool is_mapped(const Block& block) {
  return block.state() != Block::State::unmapped;
}

BlockState public_state(const Block& block) {
  switch (block.state()) {
    case Block::State::allocated:
      return BlockState::allocated;
    case Block::State::pending:
      return BlockState::pending;
    default:
      break;
  }
  BERTH_CHECK(block.state() != Block::State::held);  // only the holder of slow_mutex_ holds blocks
  return BlockState::free;
}

}  // namespace

FoundBlock CachingAllocator::look_up(const void* data) const {
  if (!origin_.is_here()) return {};
  const MutexLock lock(heap_.mutex);
  const Block* block = heap_.blocks.find_in_use(data);
  const bool live = block != nullptr && block->state() == Block::State::allocated;
  return live ? FoundBlock{block->data(), block->bytes_requested()} : FoundBlock{};
}

std::optional<CachingAllocator::Live> CachingAllocator::find_live(const void* data) const {
  require_origin();
  const MutexLock lock(heap_.mutex);
  const SharedHeap::ConsistentView consistent(heap_);
  const Block* block = heap_.blocks.find_in_use(data);
  if (block == nullptr || block->state() != Block::State::allocated) return std::nullopt;
  return Live{block->data(), block->bytes_requested()};
}

std::size_t CachingAllocator::free_bytes() const {
  const MutexLock lock(heap_.mutex);
  return heap_.blocks.free_bytes();
}

std::size_t CachingAllocator::cached_bytes() const {
  require_origin();
  const MutexLock lock(heap_.mutex);
  heap_.apply_ledgers();
  return cached_bytes_estimate();
}

bool CachingAllocator::owns(const void* data) const {
  if (!origin_.is_here()) return false;
  const MutexLock lock(heap_.mutex);
  return heap_.blocks.find(data) != nullptr || heap_.blocks.covers(data);
}

MemoryCounters CachingAllocator::counters() const {
  require_origin();
  const MutexLock lock(heap_.mutex);
  order_.release_unheld();
  heap_.apply_ledgers();
  return heap_.counters;
}

bool CachingAllocator::is_empty() const {
  const MemoryCounters now = counters();
  return now.blocks_allocated.current == 0 && now.blocks_pending.current == 0 &&
         now.bytes_reserved.current == 0 && marking_ == 0;
}

void CachingAllocator::reset_peaks() {
  require_origin();
  const MutexLock lock(heap_.mutex);
  heap_.apply_ledgers();
  heap_.bytes_allocated_most =
      std::max(heap_.bytes_allocated_most, heap_.counters.bytes_allocated.peak);
  berth::reset_peaks(heap_.counters);
}

std::optional<CUstream> CachingAllocator::public_stream(const Block& block) const {
  if (block.owner == kUnowned || heap_.streams.entry(block.owner).retired) return std::nullopt;
  return heap_.streams.entry(block.owner).stream.native();
}

BlockInfo CachingAllocator::describe(const Block& block) const {
  if (block.state() != Block::State::part) {
    return {block.address,       block.bytes,          block.bytes_requested(),
            public_state(block), public_stream(block), block.address};
  }
  const Block& whole = *block.part.whole;
  std::uintptr_t data = whole.address;
  for (const Block* part = whole.next; part != &block; part = part->part.next) data += part->bytes;
  // The rounding is at the end.
  const bool is_last = block.part.next == nullptr;
  const bool is_live = whole.state() == Block::State::allocated;
  const std::size_t slack = is_live && is_last ? whole.slack_bytes() : 0;
  return {block.address,       block.bytes,          is_live ? block.bytes - slack : 0,
          public_state(whole), public_stream(whole), data,
          whole.next != &block};
}

MemorySnapshot CachingAllocator::snapshot() const {
  require_origin();
  MappingNotices::require_outside("snapshot()");
  const MutexLock slow(heap_.slow_mutex);
  const MutexLock lock(heap_.mutex);
  const SharedHeap::ConsistentView consistent(heap_);
  MemorySnapshot snapshot;
  snapshot.allocator = name();
  snapshot.counters = heap_.counters;
  for (const auto& [address, first] : heap_.blocks.segments()) {
    bool extends = false;  // unmapped address space separates one segment from the next
    for (const Block* block = first; block != nullptr; block = block->next) {
      if (is_mapped(*block)) {
        if (!extends) snapshot.segments.push_back({block->address, 0, {}});
        SegmentInfo& segment = snapshot.segments.back();
        segment.bytes += block->bytes;
        segment.blocks.push_back(describe(*block));
        if (segment.blocks.back().state == BlockState::free) {
          snapshot.largest_free_block_bytes =
              std::max(snapshot.largest_free_block_bytes, block->bytes);
        }
      }
      extends = is_mapped(*block);
    }
  }
  return snapshot;
}

std::uint64_t CachingAllocator::searches() const {
  const MutexLock lock(heap_.mutex);
  return heap_.blocks.searches();
}

void CachingAllocator::validate() const {
  require_origin();
  MappingNotices::require_outside("validate()");
  const MutexLock slow(heap_.slow_mutex);
  const MutexLock lock(heap_.mutex);
  const SharedHeap::ConsistentView consistent(heap_);
  heap_.blocks.validate();
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    void add(const Block& block) {
      bytes += block.bytes;
      ++blocks;
    }
  };
  Sum allocated, cached, pending;
  std::uint64_t requested = 0;
  std::uint64_t marks = 0;
  std::uint64_t mapped = 0;
  std::uint64_t in_graphs = 0;
  heap_.blocks.for_each([&](const Block& block) BERTH_UNDER_LOCK {
    if (!block.is_stitched && is_mapped(block)) mapped += block.bytes;
    switch (block.state()) {
      case Block::State::allocated:
        in_graphs += order_.uses().is_held(block) ? 1 : 0;
        requested += block.bytes_requested();
        allocated.add(block);
        break;
      case Block::State::cached:
        cached.add(block);
        break;
      case Block::State::pending:
        pending.add(block);
        marks += block.uses.marks_left;
        in_graphs += order_.uses().is_held(block) ? 1 : 0;
        break;
      default:
        BERTH_CHECK(block.state() != Block::State::held);
    }
  });
  const std::uint64_t active = allocated.bytes + pending.bytes;
  BERTH_CHECK(heap_.counters.bytes_requested.current == requested);
  BERTH_CHECK(heap_.counters.bytes_allocated.current == allocated.bytes);
  BERTH_CHECK(heap_.counters.bytes_active.current == active);
  const std::uint64_t held = heap_.counters.bytes_reserved.current +
                             heap_.counters.bytes_asleep.current -
                             heap_.counters.bytes_unreturnable.current;
  BERTH_CHECK(held == mapped);
  BERTH_CHECK(held == active + cached.bytes + heap_.blocks.free_bytes());
  BERTH_CHECK(heap_.blocks_cached() == cached.blocks);
  BERTH_CHECK(heap_.counters.blocks_allocated.current == allocated.blocks);
  BERTH_CHECK(heap_.blocks.in_use_count() == allocated.blocks + cached.blocks);
  BERTH_CHECK(heap_.counters.blocks_allocated.current ==
              heap_.counters.allocations - heap_.counters.frees);
  BERTH_CHECK(heap_.counters.blocks_pending.current == pending.blocks);
  BERTH_CHECK(heap_.counters.blocks_free.current == heap_.blocks.free_count() + cached.blocks);
  BERTH_CHECK(order_.uses().mark_count() + order_.uses().held_count() == marks);
  BERTH_CHECK(heap_.counters.blocks_in_graphs.current == in_graphs);
}

}  // namespace berth
