// SPDX-License-Identifier: Apache-2.0
#include "device/stream_observers.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "base/check.hpp"

namespace berth {

/// A call in progress on this thread, and the enclosing ones.
struct StreamObservers::Call {
  explicit Call(const Entry& entry_) : entry(entry_), outer(innermost) { innermost = this; }
  ~Call() {
    BERTH_CHECK(innermost == this);
    innermost = outer;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Entry& entry;
  const Call* const outer;
  static constinit thread_local const Call* innermost;
};

constinit thread_local const StreamObservers::Call* StreamObservers::Call::innermost = nullptr;

std::size_t StreamObservers::calls_of_this_thread(const Entry& entry) {
  std::size_t count = 0;
  for (const Call* call = Call::innermost; call != nullptr; call = call->outer) {
    if (&call->entry == &entry) ++count;
  }
  return count;
}

void StreamObservers::add(StreamObserver& observer) {
  const MutexLock lock(mutex_);
  BERTH_CHECK(std::ranges::find(entries_, &observer, &Entry::observer) == entries_.end());
  entries_.push_back({&observer});
}

void StreamObservers::remove(StreamObserver& observer) noexcept {
  const MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& e) { return e.observer == &observer; });
  if (found == entries_.end()) return;
  found->observer = nullptr;
  const std::size_t own = calls_of_this_thread(*found);
  // One more, so that the entry stays while this thread waits.
  ++found->calls;
  while (found->calls > own + 1) returned_.wait(mutex_);
  BERTH_CHECK(found->observer == nullptr && found->calls > own);
  if (--found->calls == 0) entries_.erase(found);
}

void StreamObservers::notify(DeviceContext& context,
                             CUstream stream) noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (StreamObserver* const observer = entry->observer; observer != nullptr) {
      ++entry->calls;
      lock.unlock();
      {
        const Call call(*entry);
        observer->stream_retiring(context, stream);
      }
      lock.lock();
      BERTH_CHECK(entry->calls > 0);
      --entry->calls;
      if (entry->observer == nullptr) returned_.notify_all();
    }
    const bool is_over = entry->observer == nullptr && entry->calls == 0;
    entry = is_over ? entries_.erase(entry) : std::next(entry);
  }
}

}  // namespace berth
