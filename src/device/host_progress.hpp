// SPDX-License-Identifier: Apache-2.0
// Host work that streams of a device wait for, such as the host work of a staged copy. A thread
// does this work before it blocks for the device. Otherwise the device work could depend on the
// blocked thread, or on a lock that it holds.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <list>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// An implementation makes no driver call and waits for no device.
/// Threads  Called on any thread, concurrently.
class HostProgress {
 public:
  virtual ~HostProgress() = default;
  /// Does the host work that a stream of the device waits for, as far as currently possible. The
  /// caller holds no lock.
  virtual void make_progress(DeviceContext& context, CUstream stream) noexcept = 0;
  /// The same for all streams of a device. May leave work to other threads, so that a thread that
  /// waits for unrelated work is not delayed. The caller may hold locks of berth's: this function
  /// frees no memory and runs no code of the program.
  virtual void make_progress(DeviceContext& context) noexcept = 0;
};

/// Threads  Safe from any thread.
class HostProgressList {
 public:
  /// Errors  std::bad_alloc: nothing is changed.
  void add(HostProgress& progress);
  /// Waits for calls of other threads into `progress`, which may then be destroyed. Must not be
  /// called from within such a call.
  void remove(HostProgress& progress) noexcept;
  /// Whether each entry has been removed.
  [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }

  // Calls HostProgress::make_progress() of each entry.
  void make_progress(DeviceContext& context, CUstream stream) noexcept;
  void make_progress(DeviceContext& context) noexcept;

 private:
  struct Entry {
    HostProgress* progress;
    std::size_t calls = 0;
    bool is_removed = false;
  };

  template <class... Call>
  void call_each(Call&... what) noexcept;

  Mutex mutex_;
  ConditionVariable returned_;
  std::list<Entry> entries_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< of entries_, so that most waits take no lock
};

}  // namespace berth
