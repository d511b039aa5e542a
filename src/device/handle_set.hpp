// SPDX-License-Identifier: Apache-2.0
// Handles of a device with a property that the driver cannot be queried for: events whose latest
// mark lies in a capture, and streams and events that belong to a pool. Small for most programs;
// while it is empty, a lookup is one load.
#pragma once

#include <atomic>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
/// Forks    Empty in a child, in which no handle is valid.
template <class Handle>
class HandleSet {
 public:
  /// Returns whether the handle is new.
  bool insert(Handle handle) {
    const MutexLock lock(mutex_);
    const bool is_new = handles_.insert(handle).second;
    count_ = handles_.size();
    return is_new;
  }
  void erase(Handle handle) noexcept {
    if (count_ == 0 || !origin_.is_here()) return;
    const MutexLock lock(mutex_);
    handles_.erase(handle);
    count_ = handles_.size();
  }
  [[nodiscard]] bool contains(Handle handle) const {
    if (count_ == 0 || !origin_.is_here()) return false;
    const MutexLock lock(mutex_);
    return handles_.count(handle) != 0;
  }

 private:
  const ForkOrigin origin_;
  std::atomic<std::size_t> count_ = 0;  ///< of handles_
  mutable Mutex mutex_;
  std::unordered_set<Handle> handles_ BERTH_GUARDED_BY(mutex_);
};

/// Keeps a handle in a set as long as it exists.
/// Threads  One at a time.
template <class Handle>
class ScopedHandle {
 public:
  ScopedHandle(HandleSet<Handle>& set, Handle handle) : set_(&set), handle_(handle) {
    set.insert(handle);
  }
  ~ScopedHandle() {
    if (set_ != nullptr) set_->erase(handle_);
  }
  ScopedHandle(ScopedHandle&& other) noexcept
      : set_(std::exchange(other.set_, nullptr)), handle_(other.handle_) {}
  ScopedHandle& operator=(ScopedHandle&&) = delete;

 private:
  HandleSet<Handle>* set_;
  Handle handle_;
};

}  // namespace berth
