// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: physical memory is returned and obtained again at the same addresses. The host
// waits for the device, and for copies of the content, without a lock. The pool is asleep then,
// so no memory of it is handed out, mapped or unmapped; other threads free blocks, end streams and
// inspect the pool.
#include <mutex>

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

std::unique_lock<Mutex> Reserve::lock_between_copies() {
  for (;;) {
    std::unique_lock slow(heap_.slow_mutex);
    const MutexLock lock(heap_.mutex);
    if (!is_copying_) return slow;
    slow.unlock();
    while (is_copying_) copied_.wait(heap_.mutex);
  }
}

template <class Copy>
void Reserve::copy_without_lock(std::unique_lock<Mutex>& slow, const Copy& copy) {
  const auto set_copying = [this](bool is_copying) BERTH_NO_THREAD_SAFETY_ANALYSIS {
    const MutexLock lock(heap_.mutex);
    BERTH_CHECK(is_copying_ != is_copying);
    is_copying_ = is_copying;
  };
  set_copying(true);
  slow.unlock();
  const auto end = [&] {
    slow.lock();
    set_copying(false);
    copied_.notify_all();
  };
  try {
    copy();
  } catch (...) {
    end();
    throw;
  }
  end();
}

std::optional<Reserve::Sleep> Reserve::begin_sleep(DeviceContext& context, SleepContent content)
    BERTH_NO_THREAD_SAFETY_ANALYSIS {
  source_->require_sleep();
  std::uint64_t number = 0;
  {
    const std::unique_lock slow = lock_between_copies();
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
    std::unique_lock slow(heap_.slow_mutex);
    if (!is_asleep_since(number)) return std::nullopt;
    if (content == SleepContent::keep) {
      const std::vector<MemoryRange> ranges =
          ranges_in_use();  // mapped until the sleep is finished
      copy_without_lock(slow, [&]() BERTH_NO_THREAD_SAFETY_ANALYSIS {  // is_copying_ guards it
        content_.save(context, ranges);
      });
    }
    return Sleep{number, stitched_addresses()};
  } catch (...) {
    cancel_sleep(number);
    throw;
  }
}

Reserve::Returned Reserve::finish_sleep(const Sleep& begun) {
  const MutexLock slow(heap_.slow_mutex);
  if (!is_asleep_since(begun.number)) return {};
  BERTH_CHECK(has_memory_asleep_);  // a sleep ends once
  const MemoryBudget::Change change(options_.budget);
  const DriverRefusal before = source_->retry_refused();
  const DriverRefusal refusal = source_->sleep(begun.stitched);
  has_memory_asleep_ = false;
  const MutexLock lock(heap_.mutex);
  BERTH_CHECK(heap_.counters.bytes_asleep.current == 0);
  const std::uint64_t reserved = heap_.counters.bytes_reserved.current;
  recount();
  return {reserved - heap_.counters.bytes_reserved.current, refusal ? refusal : before};
}

void Reserve::cancel_sleep(std::uint64_t number) noexcept {
  const MutexLock slow(heap_.slow_mutex);
  if (!is_asleep_since(number)) return;
  content_.clear();
  const MutexLock lock(heap_.mutex);
  heap_.is_asleep = false;
}

bool Reserve::obtain_asleep(DeviceContext& context, std::size_t bytes) {
  const MemoryBudget::Change change(options_.budget);
  if (!options_.budget.try_reserve(bytes)) return false;
  bool has_memory = false;
  try {
    has_memory = leaves_headroom(context, bytes) && source_->wake();
  } catch (...) {
    settle(bytes);
    throw;
  }
  if (!has_memory) settle(bytes);
  return has_memory;
}

bool Reserve::try_to_wake(DeviceContext& context) BERTH_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock slow = lock_between_copies();
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
  const std::set<std::uintptr_t> stitched = stitched_addresses();  // beforehand, for undoing
  if (!obtain_asleep(context, bytes)) return false;
  if (!content_.is_empty()) {
    try {
      copy_without_lock(slow, [&]() BERTH_NO_THREAD_SAFETY_ANALYSIS {  // is_copying_ guards it
        content_.restore(context);
      });
    } catch (...) {
      const MemoryBudget::Change change(options_.budget);
      source_->sleep(stitched);
      const MutexLock lock(heap_.mutex);
      recount();
      options_.budget.release(bytes);
      throw;
    }
  }
  content_.clear();
  settle(bytes);
  const MutexLock lock(heap_.mutex);
  heap_.is_asleep = false;
  return true;
}

void Reserve::forget_content() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  const std::unique_lock slow = lock_between_copies();
  content_.clear();
}

}  // namespace berth
