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
  const MutexLock lock(mutex_);
  if (Block* block = heap_.find(data)) return block->data();
  const Block* covering = heap_.find_covering(data);
  const bool live = covering != nullptr && covering->state() == Block::State::allocated;
  return live ? covering->data() : nullptr;
}

bool CachingAllocator::owns(const void* data) const {
  const MutexLock lock(mutex_);
  return heap_.find(data) != nullptr || heap_.covers(data);
}

MemoryCounters CachingAllocator::counters() const {
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
  return counters_;
}

void CachingAllocator::reset_peaks() {
  const MutexLock lock(mutex_);
  settle_all(ThreadCaches::Halt(caches_));
#define BERTH_RESET(name, help) counters_.name.peak = counters_.name.current;
  BERTH_MEMORY_GAUGES(BERTH_RESET)
#undef BERTH_RESET
}

std::set<OwnerId> CachingAllocator::owners_in_use() const {
  std::set<OwnerId> owners;
  for (const auto& [address, first] : heap_.segments()) {
    for (const Block* block = first; block != nullptr; block = block->next) {
      owners.insert(block->owner);
      if (block->state() != Block::State::allocated) continue;
      uses_.for_each(*block, [&](OwnerId use) { owners.insert(use); });
    }
  }
  for (const OwnerId stream : deferred_.streams()) owners.insert(stream);
  return owners;
}

std::optional<CUstream> CachingAllocator::public_stream(const Block& block) const {
  if (block.owner == kUnowned || streams_.entry(block.owner).retired) return std::nullopt;
  return streams_.entry(block.owner).stream.native();
}

MemorySnapshot CachingAllocator::snapshot() const {
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
        snapshot.segments.back().bytes += block->bytes;
        const BlockState state = public_state(*block);
        snapshot.segments.back().blocks.push_back(
            {block->address, block->bytes, block->bytes_requested(), state, public_stream(*block)});
        if (state == BlockState::free) {
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
  const MutexLock slow(slow_mutex_);
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  heap_.validate();
  std::uint64_t requested = 0;
  std::uint64_t allocated = 0;
  std::uint64_t pending = 0;
  std::uint64_t pending_count = 0;
  std::uint64_t marks = 0;
  std::uint64_t mapped = 0;
  std::uint64_t cached = 0;
  std::uint64_t cached_count = 0;
  for (const auto& [address, first] : heap_.segments()) {
    for (const Block* block = first; block != nullptr; block = block->next) {
      BERTH_CHECK(block->state() != Block::State::held);
      requested += block->bytes_requested();
      if (is_mapped(*block)) mapped += block->bytes;
      if (block->state() == Block::State::allocated) allocated += block->bytes;
      if (block->state() == Block::State::cached) {
        ++cached_count;
        cached += block->bytes;
      }
      if (block->state() != Block::State::pending) continue;
      pending += block->bytes;
      marks += block->uses.marks_left;
      ++pending_count;
    }
  }
  BERTH_CHECK(counters_.bytes_requested.current == requested);
  BERTH_CHECK(counters_.bytes_allocated.current == allocated);
  BERTH_CHECK(counters_.bytes_active.current == allocated + pending);
  BERTH_CHECK(counters_.bytes_reserved.current == mapped);
  BERTH_CHECK(counters_.bytes_reserved.current == allocated + pending + cached + heap_.free_bytes());
  BERTH_CHECK(blocks_cached_ == cached_count);
  BERTH_CHECK(counters_.blocks_allocated.current + cached_count == heap_.in_use_count());
  BERTH_CHECK(counters_.blocks_allocated.current == counters_.allocations - counters_.frees);
  BERTH_CHECK(counters_.blocks_pending.current == pending_count);
  BERTH_CHECK(counters_.blocks_free.current == heap_.free_count() + cached_count);
  BERTH_CHECK(deferred_.mark_count() == marks);
}

}  // namespace berth
