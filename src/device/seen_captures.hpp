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
/// Forks    In a child none is noted: there is no driver.
class SeenCaptures {
 public:
  /// What the driver said.
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
      is_incomplete_ = true;  // there may always be one
    }
    count_ = streams_.size() + (is_incomplete_ ? 1 : 0);
  }
  /// Whether `is_captured(stream)`, which may call the driver, says so of one that was, or there
  /// may be one that is not known. None of those that are asked about goes away meanwhile: note()
  /// waits.
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
  std::atomic<std::size_t> count_ = 0;  ///< of streams_; one more where some were lost
  mutable Mutex mutex_;
  std::set<CUstream> streams_ BERTH_GUARDED_BY(mutex_);
  bool is_incomplete_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth
