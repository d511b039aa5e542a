// SPDX-License-Identifier: Apache-2.0
#include "base/per_thread.hpp"

#include <mutex>
#include <new>

namespace berth {

/// Never destroyed, because threads may end after static objects are destroyed.
struct PerThreadTable::Process {
  Mutex mutex;  ///< taken before any owner's
  std::array<PerThreadTable*, kOwnersMax> owners BERTH_GUARDED_BY(mutex){};
  ThreadParts* threads BERTH_GUARDED_BY(mutex) = nullptr;  ///< linked by ThreadParts::next
};

PerThreadTable::Process& PerThreadTable::process() {
  static Process& process = []() -> Process& {
    // A forked child gets a consistent table, not one in the middle of a change. Registered after
    // the simulated driver is loaded, so that fork() waits for this lock before it waits for the
    // driver's, as threads do that end.
    at_fork([]() BERTH_UNDER_LOCK { PerThreadTable::process().mutex.lock(); },
            []() BERTH_UNDER_LOCK { PerThreadTable::process().mutex.unlock(); },
            forget_all_but_own_empty_parts);
    return *new Process;
  }();
  return process;
}

/// In a forked child: the other threads do not exist, and the owners are not used.
void PerThreadTable::forget_all_but_own_empty_parts() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  for (auto& part : thread_parts_->of_owner) part.store(nullptr, std::memory_order_relaxed);
  process().owners = {};
  if (thread_parts_ != &no_parts_) {
    thread_parts_->next = nullptr;
    process().threads = thread_parts_;
  } else {
    process().threads = nullptr;
  }
  process().mutex.unlock();
}

PerThreadTable::ThreadParts PerThreadTable::no_parts_;
constinit thread_local PerThreadTable::ThreadParts* PerThreadTable::thread_parts_ = &no_parts_;

namespace {

constinit thread_local bool thread_is_over = false;  ///< readable after ThreadEnd is destroyed

}  // namespace

/// Owns the calling thread's table of parts. The table is not in the static TLS block, because that
/// block has little room for libraries that are loaded later.
struct PerThreadTable::ThreadEnd {
  ThreadEnd() = default;
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  bool begin(Blocking blocking) noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
    if (parts == nullptr) parts.reset(new (std::nothrow) ThreadParts);
    if (parts == nullptr) return false;
    std::unique_lock lock(process().mutex, std::defer_lock);
    if (blocking == Blocking::yes)
      lock.lock();
    else if (!lock.try_lock())
      return false;
    parts->next = process().threads;
    process().threads = parts.get();
    thread_parts_ = parts.get();
    return true;
  }
  ~ThreadEnd() {
    const MutexLock lock(process().mutex);
    thread_is_over = true;
    if (thread_parts_ == &no_parts_) return;  // the thread has no part
    thread_parts_ = &no_parts_;
    ThreadParts** link = &process().threads;
    while (*link != parts.get()) link = &(*link)->next;
    *link = parts->next;
    for (std::size_t index = 0; index < kOwnersMax; ++index) {
      void* const part = parts->of_owner[index].load(std::memory_order_relaxed);
      if (part != nullptr) process().owners[index]->thread_ends(part);
    }
  }

 private:
  std::unique_ptr<ThreadParts> parts;  ///< null until there is memory for it
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
  for (ThreadParts* parts = process().threads; parts != nullptr; parts = parts->next) {
    parts->of_owner[index_].store(nullptr, std::memory_order_relaxed);
  }
}

bool PerThreadTable::prepare(Blocking blocking) const noexcept {
  if (index_ == kOwnersMax || thread_is_over || !BiasedLock::is_available()) return false;
  if (thread_parts_ != &no_parts_) return true;
  thread_local ThreadEnd thread_end;
  return thread_end.begin(blocking);
}

}  // namespace berth
