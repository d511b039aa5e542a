// SPDX-License-Identifier: Apache-2.0
// Looking at the allocator's state without changing it.
#include <algorithm>

#include "base/check.hpp"
#include "memory/caching_allocator.hpp"

namespace berth {
namespace {

/// Where memory is mapped: everything but bare address space.
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
  BERTH_CHECK(block.state() != Block::State::held);  // nothing is while slow_mutex_ is
  return BlockState::free;
}

}  // namespace

void* CachingAllocator::find_block(const void* data) const {
  if (!origin_.is_here()) return nullptr;
  const MutexLock lock(mutex_);
  if (Block* block = heap_.find(data)) return block->data();
  const Block* covering = heap_.find_covering(data);
  const bool live = covering != nullptr && covering->state() == Block::State::allocated;
  return live ? covering->data() : nullptr;
}

std::optional<CachingAllocator::Live> CachingAllocator::find_live(const void* data) const {
  require_origin();
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  const Block* block = heap_.find(data);
  if (block == nullptr) block = heap_.find_covering(data);
  if (block == nullptr || block->state() != Block::State::allocated) return std::nullopt;
  return Live{block->data(), block->bytes_requested()};
}

std::size_t CachingAllocator::free_bytes() const {
  const MutexLock lock(mutex_);
  return heap_.free_bytes();
}

std::size_t CachingAllocator::cached_bytes() const {
  require_origin();
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
  return cached_bytes_then();
}

bool CachingAllocator::owns(const void* data) const {
  if (!origin_.is_here()) return false;
  const MutexLock lock(mutex_);
  return heap_.find(data) != nullptr || heap_.covers(data);
}

MemoryCounters CachingAllocator::counters() const {
  require_origin();
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
  return counters_;
}

bool CachingAllocator::is_empty() const {
  const MemoryCounters now = counters();
  return now.blocks_allocated.current == 0 && now.blocks_pending.current == 0 &&
         now.bytes_reserved.current == 0 && marking_ == 0;
}

void CachingAllocator::reset_peaks() {
  require_origin();
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
  berth::reset_peaks(counters_);
}

std::set<OwnerId> CachingAllocator::owners_in_use() const {
  std::set<OwnerId> owners;
  const auto add = [&](const Block& block) BERTH_UNDER_LOCK {
    owners.insert(block.owner);
    if (block.state() != Block::State::allocated) return;
    uses_.for_each(block, [&](const UseLists::Use& use) { owners.insert(use.stream); });
  };
  heap_.for_each(add);
  for (const OwnerId stream : deferred_.streams()) owners.insert(stream);
  return owners;
}

std::optional<CUstream> CachingAllocator::public_stream(const Block& block) const {
  if (block.owner == kUnowned || streams_.entry(block.owner).retired) return std::nullopt;
  return streams_.entry(block.owner).stream.native();
}

BlockInfo CachingAllocator::describe(const Block& block) const {
  if (block.state() != Block::State::part) {
    return {block.address,       block.bytes,          block.bytes_requested(),
            public_state(block), public_stream(block), block.address};
  }
  const Block& whole = *block.part.whole;
  std::uintptr_t data = whole.address;
  for (const Block* part = whole.next; part != &block; part = part->part.next) data += part->bytes;
  // What rounding added is at the end.
  const bool is_last = block.part.next == nullptr;
  const bool is_live = whole.state() == Block::State::allocated;
  const std::size_t slack = is_live && is_last ? whole.slack_bytes() : 0;
  return {block.address,       block.bytes,          is_live ? block.bytes - slack : 0,
          public_state(whole), public_stream(whole), data,
          whole.next != &block};
}

MemorySnapshot CachingAllocator::snapshot() const {
  require_origin();
  const MutexLock slow(slow_mutex_);
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  MemorySnapshot snapshot;
  snapshot.allocator = name_;
  snapshot.counters = counters_;
  for (const auto& [address, first] : heap_.segments()) {
    bool extends = false;  // address space without memory parts one segment from the next
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

void CachingAllocator::validate() const {
  require_origin();
  const MutexLock slow(slow_mutex_);
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  heap_.validate();
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
  heap_.for_each([&](const Block& block) {
    if (!block.is_stitched && is_mapped(block)) mapped += block.bytes;
    switch (block.state()) {
      case Block::State::allocated:
        requested += block.bytes_requested();
        allocated.add(block);
        break;
      case Block::State::cached:
        cached.add(block);
        break;
      case Block::State::pending:
        pending.add(block);
        marks += block.uses.marks_left;
        break;
      default:
        BERTH_CHECK(block.state() != Block::State::held);
    }
  });
  const std::uint64_t active = allocated.bytes + pending.bytes;
  BERTH_CHECK(counters_.bytes_requested.current == requested);
  BERTH_CHECK(counters_.bytes_allocated.current == allocated.bytes);
  BERTH_CHECK(counters_.bytes_active.current == active);
  const std::uint64_t held = counters_.bytes_reserved.current + counters_.bytes_asleep.current;
  BERTH_CHECK(held == mapped);
  BERTH_CHECK(held == active + cached.bytes + heap_.free_bytes());
  BERTH_CHECK(blocks_cached_ == cached.blocks);
  BERTH_CHECK(counters_.blocks_allocated.current == allocated.blocks);
  BERTH_CHECK(heap_.in_use_count() == allocated.blocks + cached.blocks);
  BERTH_CHECK(counters_.blocks_allocated.current == counters_.allocations - counters_.frees);
  BERTH_CHECK(counters_.blocks_pending.current == pending.blocks);
  BERTH_CHECK(counters_.blocks_free.current == heap_.free_count() + cached.blocks);
  BERTH_CHECK(deferred_.mark_count() == marks);
}

}  // namespace berth
