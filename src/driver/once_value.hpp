// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

#include "base/mutex.hpp"
#include "driver/driver.hpp"

namespace berth {

/// A value that the first call obtains from the driver and all calls share. If obtaining it throws,
/// the next call tries again.
/// Threads  Safe from any thread. A call waits while another thread obtains the value.
/// Forks    A child has the value if the parent had it. If not, get() throws NotSupported, and does
///          not wait for a thread that only the parent has.
template <class T>
class OnceValue {
 public:
  template <class Make>
  T& get(const Driver& driver, Make&& make) {
    if (!is_made_.load(std::memory_order_acquire)) [[unlikely]] {
      driver.require_here();
      // Not std::call_once, which waits forever under ThreadSanitizer if an earlier call threw.
      const MutexLock lock(mutex_);
      if (!is_made_.load(std::memory_order_relaxed)) {
        value_ = std::forward<Make>(make)();
        is_made_.store(true, std::memory_order_release);
      }
    }
    return value_;
  }

  /// Null if there is no value yet. Never waits.
  [[nodiscard]] const T* find() const noexcept {
    return is_made_.load(std::memory_order_acquire) ? &value_ : nullptr;
  }

 private:
  Mutex mutex_;
  std::atomic<bool> is_made_ = false;
  T value_{};
};

}  // namespace berth
