// SPDX-License-Identifier: Apache-2.0
// A lock that is biased to one thread, its owner, which pays two plain stores. Any other thread
// pays for a memory barrier on all processors.
//
// The owner stores that it is inside, then reads whether entry is forbidden; another thread forbids
// entry, then reads whether the owner is inside. Each must see the other's store, which needs a
// full fence on both sides. membarrier(2) lets the other thread execute the fence on the owner's
// processor. Source: membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED, and the example there.
#pragma once

#include <atomic>

namespace berth {

/// Threads  As each function says.
class BiasedLock {
 public:
  BiasedLock() = default;
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

  /// Whether the kernel supports such locks: Linux 4.14 and later, unless a sandbox forbids it. If
  /// not, do not use one. If a sandbox forbids it later, fence() uses a slower method, or stops the
  /// process if there is none.
  static bool is_available() noexcept;

  /// By the owner. False, and nothing is locked, while another thread forbids entry.
  [[nodiscard]] bool try_enter() {
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!forbidden_.load(std::memory_order_acquire)) [[likely]]
      return true;
    leave();
    return false;
  }
  /// By the owner, after try_enter() returned true.
  void leave() { inside_.store(false, std::memory_order_release); }

  // By another thread; the caller ensures that there is only one at a time. Call forbid() on each
  // lock, fence() once for all of them, then wait_until_left() on each. The guarded data may be
  // used until permit().
  void forbid() { forbidden_.store(true, std::memory_order_relaxed); }
  static void fence() noexcept;
  void wait_until_left() const;
  void permit() { forbidden_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> inside_ = false;
  std::atomic<bool> forbidden_ = false;
};

}  // namespace berth
