// SPDX-License-Identifier: Apache-2.0
// Host work that streams of a device wait for, such as the host's share of a staged copy. A thread
// does that work before it blocks for the device. Otherwise it could block for work that waits for
// this very thread, or for a lock that it holds.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>

#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// Makes no driver call, and waits for no device.
/// Threads  Called on any thread, also on several at once.
class HostShare {
 public:
  virtual ~HostShare() = default;
  /// Does what can be done now of what a stream of the device waits for. The caller holds no lock.
  virtual void do_share(DeviceContext& context, CUstream stream) noexcept = 0;
  /// The same for all streams of a device. It may leave some to other threads, so that a thread
  /// that waits for something else is not delayed. The caller may hold locks of berth's: this frees
  /// no memory and runs no code of the program.
  virtual void do_share(DeviceContext& context) noexcept = 0;
};

/// Threads  Safe from any thread.
class HostShares {
 public:
  /// Errors  std::bad_alloc: nothing is changed.
  void add(HostShare& share);
  /// Waits for calls of other threads into the share, which may be destroyed then. Not from within
  /// such a call.
  void remove(HostShare& share) noexcept;

  // HostShare::do_share() of each.
  void do_all(DeviceContext& context, CUstream stream) noexcept;
  void do_all(DeviceContext& context) noexcept;

 private:
  struct Entry {
    HostShare* share;
    std::size_t calls = 0;
    bool is_removed = false;
  };

  template <class... What>
  void call_each(What&... what) noexcept;

  Mutex mutex_;
  std::condition_variable_any returned_;
  std::list<Entry> entries_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< of entries_, so that most waits take no lock
};

}  // namespace berth
