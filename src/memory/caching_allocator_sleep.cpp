// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: physical memory goes and comes back under the same addresses.
#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "memory/caching_allocator.hpp"
#include "memory/gauge.hpp"
#include "stream/capture.hpp"

namespace berth {

bool CachingAllocator::is_asleep() const {
  require_origin();
  const MutexLock lock(mutex_);
  return asleep_;
}

void CachingAllocator::require_awake() const {
  if (!asleep_) return;
  throw InvalidArgument(name_ + " is asleep, and has no memory to give; accepted: wake() it first");
}

/// From now on no thread has a way to what it keeps, so that all allocations come to the heap, which
/// refuses them.
void CachingAllocator::refuse_allocations() {
  const MutexLock lock(mutex_);
  const ThreadCaches::Halt halt(caches_);
  settle_all(halt);
  halt.for_each([&](ThreadCache& cache) { cache.drop_all(back_to_heap()); });
  hand_over_.fronts().flush(back_to_heap());
  count_blocks();
  asleep_ = true;
}

void CachingAllocator::accept_allocations() {
  const MutexLock lock(mutex_);
  asleep_ = false;
}

std::vector<MemoryRange> CachingAllocator::ranges_in_use() const {
  const MutexLock lock(mutex_);
  std::vector<MemoryRange> ranges;
  for (const auto& [address, first] : heap_.segments()) {
    for (const Block* block = first; block != nullptr; block = block->next) {
      const Block::State state = block->state();
      if (state == Block::State::allocated || state == Block::State::pending ||
          state == Block::State::part) {
        ranges.push_back({block->address, block->bytes});
      }
    }
  }
  return ranges;
}

std::size_t CachingAllocator::put_source_to_sleep() {
  std::set<std::uintptr_t> stitched;
  {
    const MutexLock lock(mutex_);
    stitched = heap_.stitched_addresses();
  }
  return source_->sleep(stitched);
}

std::size_t CachingAllocator::sleep(DeviceContext& context, SleepContent content) {
  require_origin();
  source_->require_sleep();
  const MutexLock slow(slow_mutex_);
  if (is_asleep()) return 0;
  refuse_allocations();
  try {
    {
      const ContextScope scope(context);
      RelaxedCapture relaxed(driver_);
      relaxed.begin();
      driver_.ctx_synchronize();
    }
    if (content == SleepContent::keep) content_.save(context, ranges_in_use());
    const std::size_t bytes = put_source_to_sleep();
    budget_.give_back(bytes);
    const MutexLock lock(mutex_);
    lower_gauge(counters_.bytes_reserved, bytes);
    raise_gauge(counters_.bytes_asleep, bytes);
    return bytes;
  } catch (...) {
    content_.clear();
    accept_allocations();
    throw;
  }
}

void CachingAllocator::wake(DeviceContext& context) {
  require_origin();
  if (try_to_wake(context)) return;
  std::size_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    bytes = counters_.bytes_asleep.current;
  }
  if (others_ && budget_.has_own_room(bytes) &&
      others_(budget_.wanted_from_others(bytes), Waiting::for_all) > 0 && try_to_wake(context))
    return;
  throw OutOfMemory(
      fmt::format("{} cannot wake: the device has no {} left, or the limit is reached; it sleeps "
                  "on, and can be "
                  "woken when others have given memory back",
                  name_, format_bytes(bytes)));
}

bool CachingAllocator::try_to_wake(DeviceContext& context) {
  const MutexLock slow(slow_mutex_);
  std::size_t bytes = 0;
  {
    const MutexLock lock(mutex_);
    if (!asleep_) return true;
    bytes = counters_.bytes_asleep.current;
  }
  if (!budget_.try_reserve(bytes)) return false;
  bool has_memory = false;
  try {
    has_memory = leaves_headroom(context, bytes) && source_->wake();
    if (has_memory) content_.restore(context);
  } catch (...) {
    if (has_memory) put_source_to_sleep();
    budget_.give_back(bytes);
    throw;
  }
  if (!has_memory) {
    budget_.give_back(bytes);
    return false;
  }
  content_.clear();
  const MutexLock lock(mutex_);
  lower_gauge(counters_.bytes_asleep, bytes);
  raise_gauge(counters_.bytes_reserved, bytes);
  asleep_ = false;
  return true;
}

}  // namespace berth
