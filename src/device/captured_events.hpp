// SPDX-License-Identifier: Apache-2.0
// The events of a device whose latest mark lies in a capture. No driver call tells them from others
// without breaking the capture, so whoever marks one notes it here. Empty for most programs, and then
// every question is one load.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <unordered_set>

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
/// Forks    In a child none is noted: no event does anything there.
class CapturedEvents {
 public:
  /// Whether it was not noted before.
  bool note(CUevent event) {
    const MutexLock lock(mutex_);
    const bool is_new = events_.insert(event).second;
    count_ = events_.size();
    return is_new;
  }
  void forget(CUevent event) noexcept {
    if (count_ == 0 || !origin_.is_here()) return;
    const MutexLock lock(mutex_);
    events_.erase(event);
    count_ = events_.size();
  }
  [[nodiscard]] bool contain(CUevent event) const {
    if (count_ == 0 || !origin_.is_here()) return false;
    const MutexLock lock(mutex_);
    return events_.count(event) != 0;
  }

 private:
  const ForkOrigin origin_;
  std::atomic<std::size_t> count_ = 0;  ///< of events_
  mutable Mutex mutex_;
  std::unordered_set<CUevent> events_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
