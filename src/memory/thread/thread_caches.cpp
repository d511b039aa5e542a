// SPDX-License-Identifier: Apache-2.0
#include "memory/thread/thread_caches.hpp"

#include <algorithm>
#include <utility>

namespace berth {

/// Never destroyed: threads may end after the static objects have.
struct ThreadCaches::Process {
  Mutex mutex;  ///< taken before any allocator's
  std::array<ThreadCaches*, kAllocatorsMax> allocators BERTH_GUARDED_BY(mutex){};
  std::vector<ThreadTable*> tables BERTH_GUARDED_BY(mutex);
};

ThreadCaches::Process& ThreadCaches::process() {
  static Process& process = []() -> Process& {
    // The copy of a process gets the table whole, not in the middle of a change.
    at_fork([]() BERTH_UNDER_LOCK { ThreadCaches::process().mutex.lock(); },
            []() BERTH_UNDER_LOCK { ThreadCaches::process().mutex.unlock(); },
            forget_all_but_own_empty_table);
    return *new Process;
  }();
  return process;
}

/// In the copy of a process: the other threads are gone, and the allocators are of no use.
void ThreadCaches::forget_all_but_own_empty_table() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  for (auto& cache : thread_table_->caches) cache.store(nullptr, std::memory_order_relaxed);
  process().allocators = {};
  std::erase_if(process().tables, [](const ThreadTable* table) { return table != thread_table_; });
  process().mutex.unlock();
}

ThreadCaches::ThreadTable ThreadCaches::no_caches_;
constinit thread_local ThreadCaches::ThreadTable* ThreadCaches::thread_table_ = &no_caches_;

namespace {

constinit thread_local bool thread_is_over = false;  ///< readable after ThreadEnd is gone

}  // namespace

/// Owns the calling thread's table.
struct ThreadCaches::ThreadEnd {
  ThreadTable table;

  ThreadEnd() {
    const MutexLock lock(process().mutex);
    process().tables.push_back(&table);
    thread_table_ = &table;
  }
  ~ThreadEnd() {
    const MutexLock lock(process().mutex);
    thread_is_over = true;
    thread_table_ = &no_caches_;
    std::erase(process().tables, &table);
    for (std::size_t index = 0; index < kAllocatorsMax; ++index) {
      ThreadCache* const cache = table.caches[index].load(std::memory_order_relaxed);
      if (cache == nullptr) continue;
      ThreadCaches& caches = *process().allocators[index];
      const MutexLock allocator_lock(caches.mutex_);
      caches.on_thread_end_(*cache);
      std::erase_if(caches.all_, [&](const auto& each) { return each.get() == cache; });
    }
  }
};

ThreadCaches::ThreadCaches(Mutex& mutex, OnThreadEnd on_thread_end)
    : mutex_(mutex), on_thread_end_(std::move(on_thread_end)) {
  const MutexLock lock(process().mutex);
  auto& allocators = process().allocators;
  const auto free = std::find(allocators.begin(), allocators.end(), nullptr);
  index_ = static_cast<std::size_t>(free - allocators.begin());
  if (index_ < kAllocatorsMax) allocators[index_] = this;
}

ThreadCaches::~ThreadCaches() {
  if (index_ == kAllocatorsMax) return;
  if (!origin_.is_here()) return;
  const MutexLock lock(process().mutex);
  process().allocators[index_] = nullptr;
  for (ThreadTable* table : process().tables) {
    table->caches[index_].store(nullptr, std::memory_order_relaxed);
  }
}

ThreadCache* ThreadCaches::mine_or_new() {
  if (ThreadCache* const cache = mine()) return cache;
  if (index_ == kAllocatorsMax) return nullptr;
  if (thread_is_over || !BiasedLock::is_available()) return nullptr;
  thread_local ThreadEnd thread_end;
  auto made = std::make_unique<ThreadCache>();
  ThreadCache* const cache = made.get();
  const MutexLock lock(mutex_);
  all_.push_back(std::move(made));
  thread_table_->caches[index_].store(cache, std::memory_order_relaxed);
  return cache;
}

std::size_t ThreadCaches::bytes_metadata() const {
  std::size_t bytes = 0;
  for (const auto& cache : all_) bytes += cache->bytes_metadata();
  return bytes;
}

template <class Visit>
void ThreadCaches::Halt::for_each_other(const Visit& visit) const {
  const ThreadCache* const mine = caches_.mine();
  for (const auto& cache : caches_.all_) {
    if (cache.get() != mine) visit(*cache);
  }
}

ThreadCaches::Halt::Halt(ThreadCaches& caches)
    : caches_(caches),
      alone_(caches.all_.empty() || (caches.all_.size() == 1 && caches.mine() != nullptr)) {
  if (alone_) return;
  for_each_other([](ThreadCache& cache) { cache.lock().forbid(); });
  BiasedLock::fence();
  for_each_other([](ThreadCache& cache) { cache.lock().wait_until_left(); });
}

ThreadCaches::Halt::~Halt() {
  if (alone_) return;
  for_each_other([](ThreadCache& cache) { cache.lock().permit(); });
}

}  // namespace berth
