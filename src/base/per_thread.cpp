// SPDX-License-Identifier: Apache-2.0
#include "base/per_thread.hpp"

#include <mutex>

namespace berth {

/// Never destroyed: threads may end after the static objects have.
struct PerThreadTable::Process {
  Mutex mutex;  ///< taken before any owner's
  std::array<PerThreadTable*, kOwnersMax> owners BERTH_GUARDED_BY(mutex){};
  std::vector<ThreadParts*> threads BERTH_GUARDED_BY(mutex);
};

PerThreadTable::Process& PerThreadTable::process() {
  static Process& process = []() -> Process& {
    // The copy of a process gets the table whole, not in the middle of a change.
    at_fork([]() BERTH_UNDER_LOCK { PerThreadTable::process().mutex.lock(); },
            []() BERTH_UNDER_LOCK { PerThreadTable::process().mutex.unlock(); },
            forget_all_but_own_empty_parts);
    return *new Process;
  }();
  return process;
}

/// In the copy of a process: the other threads are gone, and the owners are of no use.
void PerThreadTable::forget_all_but_own_empty_parts() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  for (auto& part : thread_parts_->of_owner) part.store(nullptr, std::memory_order_relaxed);
  process().owners = {};
  std::erase_if(process().threads, [](const ThreadParts* parts) { return parts != thread_parts_; });
  process().mutex.unlock();
}

PerThreadTable::ThreadParts PerThreadTable::no_parts_;
constinit thread_local PerThreadTable::ThreadParts* PerThreadTable::thread_parts_ = &no_parts_;

namespace {

constinit thread_local bool thread_is_over = false;  ///< readable after ThreadEnd is gone

}  // namespace

/// Owns the calling thread's table of parts. Not in the thread's static block itself: a library that is
/// loaded later may put little there.
struct PerThreadTable::ThreadEnd {
  const std::unique_ptr<ThreadParts> parts = std::make_unique<ThreadParts>();

  bool begin(Waiting waiting) BERTH_NO_THREAD_SAFETY_ANALYSIS {
    Mutex& mutex = process().mutex;
    if (waiting == Waiting::yes)
      mutex.lock();
    else if (!mutex.try_lock())
      return false;
    const std::unique_lock<Mutex> lock(mutex, std::adopt_lock);
    process().threads.push_back(parts.get());
    thread_parts_ = parts.get();
    return true;
  }
  ~ThreadEnd() {
    const MutexLock lock(process().mutex);
    thread_is_over = true;
    thread_parts_ = &no_parts_;
    std::erase(process().threads, parts.get());
    for (std::size_t index = 0; index < kOwnersMax; ++index) {
      void* const part = parts->of_owner[index].load(std::memory_order_relaxed);
      if (part != nullptr) process().owners[index]->thread_ends(part);
    }
  }
};

PerThreadTable::PerThreadTable() {
  const MutexLock lock(process().mutex);
  auto& owners = process().owners;
  const auto free = std::find(owners.begin(), owners.end(), nullptr);
  index_ = static_cast<std::size_t>(free - owners.begin());
  if (index_ < kOwnersMax) owners[index_] = this;
}

void PerThreadTable::forget() {
  if (index_ == kOwnersMax) return;
  if (!origin_.is_here()) return;
  const MutexLock lock(process().mutex);
  process().owners[index_] = nullptr;
  for (ThreadParts* parts : process().threads) {
    parts->of_owner[index_].store(nullptr, std::memory_order_relaxed);
  }
}

bool PerThreadTable::prepare(Waiting waiting) const {
  if (index_ == kOwnersMax || thread_is_over || !BiasedLock::is_available()) return false;
  if (thread_parts_ != &no_parts_) return true;
  thread_local ThreadEnd thread_end;
  return thread_end.begin(waiting);
}

}  // namespace berth
