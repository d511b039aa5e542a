// SPDX-License-Identifier: Apache-2.0
#include "device/host_progress.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "base/check.hpp"

namespace berth {

void HostProgressList::add(HostProgress& progress) {
  const MutexLock lock(mutex_);
  BERTH_CHECK(std::ranges::find(entries_, &progress, &Entry::progress) == entries_.end());
  entries_.push_back({&progress});
  count_ = entries_.size();
}

void HostProgressList::remove(HostProgress& progress) noexcept {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.progress == &progress; });
  if (found == entries_.end()) return;
  found->is_removed = true;
  while (found->calls > 0) returned_.wait(mutex_);
  BERTH_CHECK(found->is_removed);
  entries_.erase(found);
  count_ = entries_.size();
}

template <class... Call>
void HostProgressList::call_each(Call&... what) noexcept BERTH_NO_THREAD_SAFETY_ANALYSIS {
  if (count_ == 0) return;
  std::unique_lock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->is_removed) continue;
    ++entry->calls;  // it stays
    lock.unlock();
    entry->progress->make_progress(what...);
    lock.lock();
    BERTH_CHECK(entry->calls > 0);
    --entry->calls;
    if (entry->is_removed) returned_.notify_all();
  }
}

void HostProgressList::make_progress(DeviceContext& context, CUstream stream) noexcept {
  call_each(context, stream);
}
void HostProgressList::make_progress(DeviceContext& context) noexcept {
  call_each(context);
}

}  // namespace berth
