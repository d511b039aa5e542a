// SPDX-License-Identifier: Apache-2.0
// The streams of a device that were being captured at the last query. Synchronizing the device
// would break their captures. For a stream that berth does not own, only a call that names it can
// show that the capture has ended.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <new>
#include <set>

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
/// Forks    Empty in a child.
class SeenCaptures {
 public:
  /// Stores the result of a query.
  void update(CUstream stream, bool is_captured) noexcept {
    if (!is_captured && count_ == 0) return;
    if (!origin_.is_here()) return;
    const MutexLock lock(mutex_);
    try {
      if (is_captured) {
        streams_.insert(stream);
      } else {
        streams_.erase(stream);
      }
    } catch (const std::bad_alloc&) {
      is_incomplete_ = true;  // from now on there may be one
    }
    count_ = streams_.size() + (is_incomplete_ ? 1 : 0);
  }
  /// Whether is_captured(stream), which may call the driver, is true for one of them, or the set is
  /// incomplete. No stream in the set ends meanwhile, because update() waits.
  template <class IsCaptured>
  [[nodiscard]] bool any(const IsCaptured& is_captured) {
    if (count_ == 0 || !origin_.is_here()) return false;
    const MutexLock lock(mutex_);
    std::erase_if(streams_, [&](CUstream stream) { return !is_captured(stream); });
    count_ = streams_.size() + (is_incomplete_ ? 1 : 0);
    return count_ > 0;
  }

 private:
  const ForkOrigin origin_;
  std::atomic<std::size_t> count_ = 0;  ///< of streams_, plus 1 if it is incomplete
  mutable Mutex mutex_;
  std::set<CUstream> streams_ BERTH_GUARDED_BY(mutex_);
  bool is_incomplete_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth
