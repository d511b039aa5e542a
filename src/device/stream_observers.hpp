// SPDX-License-Identifier: Apache-2.0
// The observers that are notified when a stream of a device ends. They are called one after the
// other without a lock, and may leave at any time.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <list>

#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// Is told about streams that are about to be destroyed, while they still can be recorded on.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  /// Called without a lock of berth.
  virtual void stream_retiring(DeviceContext& context, CUstream stream) noexcept = 0;
};

/// Threads  Safe from any thread.
class StreamObservers {
 public:
  /// Errors  std::bad_alloc: nothing is changed.
  void add(StreamObserver& observer);
  /// Waits for the calls into the observer that other threads are in the middle of: it may be
  /// destroyed then. The caller holds no lock that they need. From within a call into the observer,
  /// that call is not waited for: it must not use the observer afterwards. From within a call into
  /// another observer, not while that one may be removed from within a call into this one.
  void remove(StreamObserver& observer) noexcept;
  /// Calls each, but those that are removed meanwhile. Allocates nothing.
  void notify(DeviceContext& context, CUstream stream) noexcept;

 private:
  struct Entry {
    StreamObserver*
        observer;  ///< null once removed: the entry stays until the calls into it are over
    std::size_t calls = 0;
  };
  using Entries = std::list<Entry>;
  struct Call;

  static std::size_t calls_of_this_thread(const Entry& entry);

  Mutex mutex_;
  std::condition_variable_any returned_;
  Entries entries_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
