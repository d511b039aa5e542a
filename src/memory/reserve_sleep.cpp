// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: physical memory is returned and obtained again at the same addresses.
#include "base/check.hpp"
#include "memory/gauge.hpp"
#include "memory/reserve.hpp"
#include "stream/wait.hpp"

namespace berth {

std::vector<MemoryRange> Reserve::ranges_in_use() const {
  const MutexLock lock(heap_.mutex);
  std::vector<MemoryRange> ranges;
  for (const auto& [address, first] : heap_.blocks.segments()) {
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

std::set<std::uintptr_t> Reserve::stitched_addresses() const {
  const MutexLock lock(heap_.mutex);
  return heap_.blocks.stitched_addresses();
}

/// Other threads may wake the pool while this one waits for the device, and put it to sleep again.
bool Reserve::is_asleep_since(std::uint64_t sleep) const {
  const MutexLock lock(heap_.mutex);
  return heap_.is_asleep && sleeps_ == sleep;
}

std::optional<Reserve::Sleep> Reserve::begin_sleep(DeviceContext& context, SleepContent content) {
  source_->require_sleep();
  std::uint64_t number = 0;
  {
    const MutexLock slow(heap_.slow_mutex);
    const MutexLock lock(heap_.mutex);
    if (heap_.is_asleep) return std::nullopt;
    // Thread caches are disabled then, so that all allocations reach the heap, which refuses them.
    heap_.drop_caches();
    BERTH_CHECK(content_.is_empty());  // the content of the last sleep was restored or dropped
    heap_.is_asleep = true;
    has_memory_asleep_ = true;
    number = ++sleeps_;
  }
  try {
    {
      const ContextScope scope(context);
      wait_for(context);  // without a lock, which the work may need
    }
    const MutexLock slow(heap_.slow_mutex);
    if (!is_asleep_since(number)) return std::nullopt;
    if (content == SleepContent::keep) content_.save(context, ranges_in_use());
    return Sleep{number, stitched_addresses()};
  } catch (...) {
    cancel_sleep(number);
    throw;
  }
}

std::size_t Reserve::finish_sleep(const Sleep& begun) {
  const MutexLock slow(heap_.slow_mutex);
  if (!is_asleep_since(begun.number)) return 0;
  BERTH_CHECK(has_memory_asleep_);  // a sleep ends once
  const MemoryBudget::Change change(options_.budget);
  const std::size_t bytes = source_->sleep(begun.stitched);
  has_memory_asleep_ = false;
  options_.budget.release(bytes);
  const MutexLock lock(heap_.mutex);
  BERTH_CHECK(heap_.counters.bytes_asleep.current == 0);
  BERTH_CHECK(heap_.counters.bytes_reserved.current >= bytes);
  lower_gauge(heap_.counters.bytes_reserved, bytes);
  raise_gauge(heap_.counters.bytes_asleep, bytes);
  return bytes;
}

void Reserve::cancel_sleep(std::uint64_t number) noexcept {
  const MutexLock slow(heap_.slow_mutex);
  if (!is_asleep_since(number)) return;
  content_.clear();
  const MutexLock lock(heap_.mutex);
  heap_.is_asleep = false;
}

bool Reserve::try_to_wake(DeviceContext& context) {
  const MutexLock slow(heap_.slow_mutex);
  const MemoryBudget::Change change(options_.budget);
  std::size_t bytes = 0;
  {
    const MutexLock lock(heap_.mutex);
    if (!heap_.is_asleep) return true;
    if (has_memory_asleep_) {  // another thread's sleep() has not finished, and then returns
      heap_.is_asleep = false;
      content_.clear();
      return true;
    }
    bytes = heap_.counters.bytes_asleep.current;
  }
  if (!options_.budget.try_reserve(bytes)) return false;
  bool has_memory = false;
  std::set<std::uintptr_t> stitched;
  try {
    stitched = stitched_addresses();  // beforehand, for undoing
    has_memory = leaves_headroom(context, bytes) && source_->wake();
    if (has_memory) content_.restore(context);
  } catch (...) {
    if (has_memory) source_->sleep(stitched);
    options_.budget.give_back(bytes);
    throw;
  }
  if (!has_memory) {
    options_.budget.give_back(bytes);
    return false;
  }
  content_.clear();
  const MutexLock lock(heap_.mutex);
  lower_gauge(heap_.counters.bytes_asleep, bytes);
  raise_gauge(heap_.counters.bytes_reserved, bytes);
  heap_.is_asleep = false;
  return true;
}

}  // namespace berth
