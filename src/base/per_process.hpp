// SPDX-License-Identifier: Apache-2.0
// What all Runtimes of a process share.
#pragma once

#include <atomic>
#include <memory>

#include "base/fork.hpp"

namespace berth {

/// One T for the process, made at its first use and never destroyed, because threads may outlive
/// static objects. A forked child makes a T of its own: the parent's describes objects that the
/// child cannot use, and a thread of the parent may have held its lock.
/// Threads  Safe from any thread. No call waits for another thread.
template <class T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  /// Errors  std::bad_alloc, at the first use.
  T& get() {
    Made* found = made_.load(std::memory_order_acquire);
    while (found == nullptr || !found->origin.is_here()) {
      auto own = std::make_unique<Made>();
      own->parents = found;
      if (made_.compare_exchange_strong(found, own.get(), std::memory_order_acq_rel)) {
        found = own.release();
      }
    }
    return found->value;
  }

  /// Null before the first use. Makes nothing.
  [[nodiscard]] T* find() noexcept {
    Made* const found = made_.load(std::memory_order_acquire);
    return found != nullptr && found->origin.is_here() ? &found->value : nullptr;
  }

 private:
  struct Made {
    const ForkOrigin origin;
    T value;
    Made* parents = nullptr;  ///< for leak checkers
  };

  std::atomic<Made*> made_ = nullptr;
};

}  // namespace berth
