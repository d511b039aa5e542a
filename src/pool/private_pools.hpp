// SPDX-License-Identifier: Apache-2.0
// The private pools of one device: open pools, and closed pools that still have live blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "pool/device_pool.hpp"

namespace berth {

/// Threads  Safe from any thread. The lock guards the list; callers share ownership of a pool. Only
///          find() queries pools under it, and takes the locks of their heaps after it.
class PrivatePools {
 public:
  void add(std::shared_ptr<DevicePool> pool);
  /// `handle` is the reference of the open pool's handles, until it is closed.
  void attach(const DevicePool& pool, std::shared_ptr<DevicePool>& handle) noexcept;
  /// The handles of open pools lose their reference, so that they have no effect from now on.
  void detach_handles() noexcept;
  /// No allocation from the pool follows.
  void close(const DevicePool& pool);
  /// Returns the unused memory of closed pools, and destroys those without live blocks. Returns the
  /// bytes.
  /// Blocking  Waits for the work that used it.
  std::size_t clean_up();

  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  [[nodiscard]] bool has_open() const {
    const MutexLock lock(mutex_);
    return !std::ranges::all_of(entries_, &Entry::closed);
  }
  // Oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> all() const;
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> open() const { return in_state(false); }
  /// The pool that has memory at `data`, live or not, or null. Needs no host memory, because frees
  /// call it.
  [[nodiscard]] std::shared_ptr<DevicePool> find(const void* data) const;

 private:
  struct Entry {
    std::shared_ptr<DevicePool> pool;
    bool closed = false;
    std::shared_ptr<DevicePool>* handle = nullptr;
  };
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> in_state(bool closed) const;
  Entry& open_entry(const DevicePool& pool) BERTH_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< of entries_
};

}  // namespace berth
