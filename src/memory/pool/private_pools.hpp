// SPDX-License-Identifier: Apache-2.0
// The private pools of one device: open pools, and closed pools that still have live blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "memory/pool/device_pool.hpp"

namespace berth {

/// Threads  Safe from any thread. The lock is for the list: who works with a pool shares it. Only
///          find() asks pools under it, and so takes the locks of their heaps behind it.
class PrivatePools {
 public:
  void add(std::shared_ptr<DevicePool> pool);
  /// Nobody allocates from the pool any more.
  void close(const DevicePool& pool);
  /// Gives back what closed pools have no more use for; the pools themselves, where no block is
  /// live. Returns the bytes given back.
  /// Blocking  Waits for the work that used it.
  std::size_t clean_up();

  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  // Oldest first.
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> all() const;
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> open() const { return in_state(false); }
  /// The pool whose memory `data` is, live or not; null where there is none. Asks the host for no
  /// memory, for that is what frees do.
  [[nodiscard]] std::shared_ptr<DevicePool> find(const void* data) const;

 private:
  struct Entry {
    std::shared_ptr<DevicePool> pool;
    bool closed = false;
  };
  [[nodiscard]] std::vector<std::shared_ptr<DevicePool>> in_state(bool closed) const;

  mutable Mutex mutex_;
  std::vector<Entry> entries_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;  ///< of entries_
};

}  // namespace berth
