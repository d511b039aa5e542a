// SPDX-License-Identifier: Apache-2.0
// The observers that are notified when a stream of a device ends. They are called one after the
// other without a lock, and may be removed at any time.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <list>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// Notified of streams that are about to be destroyed, while events can still be recorded on them.
/// Threads  Called on any thread.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  /// Called without a lock of berth's.
  virtual void stream_retiring(DeviceContext& context, CUstream stream) noexcept = 0;
};

/// Threads  Safe from any thread.
class StreamObservers {
 public:
  /// Errors  std::bad_alloc: nothing is changed.
  void add(StreamObserver& observer);
  /// Waits for calls of other threads into the observer, which may be destroyed then. The caller
  /// holds no lock that they need. Called from within a call into the observer, it does not wait
  /// for that call, which must not use the observer afterwards. Two observers must not remove each
  /// other from within calls.
  void remove(StreamObserver& observer) noexcept;
  [[nodiscard]] bool empty() {
    const MutexLock lock(mutex_);
    return entries_.empty();
  }
  /// Calls each observer that is not removed meanwhile. Allocates no memory.
  void notify(DeviceContext& context, CUstream stream) noexcept;

 private:
  struct Entry {
    StreamObserver*
        observer;  ///< null once removed; the entry stays until calls in progress return
    std::size_t calls = 0;
  };
  using Entries = std::list<Entry>;
  struct Call;

  static std::size_t calls_of_this_thread(const Entry& entry);

  Mutex mutex_;
  ConditionVariable returned_;
  Entries entries_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
