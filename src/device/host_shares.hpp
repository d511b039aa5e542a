// SPDX-License-Identifier: Apache-2.0
// Work of the host that streams of a device wait for, as the host's share of a copy through staging
// memory. A thread does that work before it blocks until the device has done something. Otherwise
// the thread could block for work that waits for this very thread, or for a lock that it holds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>

#include "berth/stream.hpp"

#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// Makes no driver call, and waits for no device.
/// Threads  Called on any thread, also on several at once.
class HostShare {
 public:
  virtual ~HostShare() = default;
  /// Does what can be done now of what `stream` waits for. The caller holds no lock.
  virtual void do_share(StreamRef stream) noexcept = 0;
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
  /// Waits for the calls into the share that other threads are in the middle of: it may be
  /// destroyed then. Not from within such a call.
  void remove(HostShare& share) noexcept;

  // HostShare::do_share() of each.
  void do_all(StreamRef stream) noexcept;
  void do_all(DeviceContext& context) noexcept;

 private:
  struct Entry {
    HostShare* share;
    std::size_t calls = 0;
    bool is_removed = false;
  };

  template <class What>
  void call_each(What& what) noexcept;

  Mutex mutex_;
  std::condition_variable_any returned_;
  std::list<Entry> entries_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< of entries, so that most waits take no lock
};

}  // namespace berth
