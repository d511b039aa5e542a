// SPDX-License-Identifier: Apache-2.0
#include "device/call_list.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "base/check.hpp"

namespace berth {

/// A call in progress on this thread, and the enclosing ones.
struct UntypedCallList::Call {
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

constinit thread_local const UntypedCallList::Call* UntypedCallList::Call::innermost = nullptr;

std::size_t UntypedCallList::calls_of_this_thread(const Entry& entry) {
  std::size_t count = 0;
  for (const Call* call = Call::innermost; call != nullptr; call = call->outer) {
    if (&call->entry == &entry) ++count;
  }
  return count;
}

UntypedCallList::Entries::iterator UntypedCallList::erase(Entries::iterator entry) noexcept {
  --count_;
  return entries_.erase(entry);
}

void UntypedCallList::add(void* object) {
  const MutexLock lock(mutex_);
  BERTH_CHECK(std::ranges::find(entries_, object, &Entry::object) == entries_.end());
  entries_.push_back({object});
  ++count_;
}

void UntypedCallList::remove(void* object) noexcept {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(entries_, object, &Entry::object);
  if (found == entries_.end()) return;
  found->object = nullptr;
  const std::size_t own = calls_of_this_thread(*found);
  // One more, so that the entry stays while this thread waits.
  ++found->calls;
  while (found->calls > own + 1) returned_.wait(mutex_);
  BERTH_CHECK(found->object == nullptr && found->calls > own);
  if (--found->calls == 0) erase(found);
}

void UntypedCallList::call_each(Function function,
                                const void* call) noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
  if (is_empty()) return;
  std::unique_lock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (void* const object = entry->object; object != nullptr) {
      ++entry->calls;
      lock.unlock();
      {
        const Call in_progress(*entry);
        function(object, call);
      }
      lock.lock();
      BERTH_CHECK(entry->calls > 0);
      --entry->calls;
      if (entry->object == nullptr) returned_.notify_all();
    }
    const bool is_over = entry->object == nullptr && entry->calls == 0;
    entry = is_over ? erase(entry) : std::next(entry);
  }
}

}  // namespace berth
