// SPDX-License-Identifier: Apache-2.0
// A lock that belongs to one thread and costs it two plain stores; any other thread that wants in
// pays for both.
//
// The owner announces itself and then looks whether it may enter; another thread forbids entry and
// then looks whether the owner is inside. Each must see the other's store, for which both would
// need a full fence. membarrier(2) lets the other thread run that fence on the owner's processor
// instead. Source: membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED, and the example there.
#pragma once

#include <atomic>

namespace berth {

class BiasedLock {
 public:
  BiasedLock() = default;
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

  /// Whether the kernel has what this needs: Linux 4.14 and later, unless a sandbox forbids it.
  /// Where not, there must be no such locks. The answer stays: where a sandbox forbids it later,
  /// fence() takes a slower way, or stops the process where there is none.
  static bool is_available() noexcept;

  /// The owner. False, and nothing is locked, while another thread has forbidden entry.
  [[nodiscard]] bool try_enter() {
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!forbidden_.load(std::memory_order_acquire)) [[likely]]
      return true;
    leave();
    return false;
  }
  /// The owner, after try_enter() said true.
  void leave() { inside_.store(false, std::memory_order_release); }

  // Another thread; one at a time, which is for the caller to see to. First forbid() on as many
  // locks as are wanted, then one fence() for all of them, then wait_until_left() on each; what
  // they guard may then be used until permit().
  void forbid() { forbidden_.store(true, std::memory_order_relaxed); }
  static void fence() noexcept;
  void wait_until_left() const;
  void permit() { forbidden_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> inside_ = false;
  std::atomic<bool> forbidden_ = false;
};

}  // namespace berth
