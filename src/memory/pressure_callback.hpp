// SPDX-License-Identifier: Apache-2.0
// The program's callback for memory pressure. The callback is not called recursively: allocations
// within it, from any pool that shares the hook, do not call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

using PressureCallback = std::function<bool(std::size_t bytes_missing)>;

/// Holds the callback, which may be replaced while it runs.
/// Threads  Safe from any thread. Not in a forked child.
class PressureHook {
 public:
  explicit PressureHook(PressureCallback callback) { set(std::move(callback)); }

  /// Contract: DeviceAllocator::set_on_pressure().
  void set(PressureCallback callback) BERTH_EXCLUDES(mutex_);
  /// Calls the callback, without a lock. False if there is none, or if this thread is within a call
  /// of this hook.
  bool call(std::size_t bytes_missing) BERTH_EXCLUDES(mutex_);

 private:
  class Call;
  using Shared = std::shared_ptr<const PressureCallback>;  ///< null: there is none

  [[nodiscard]] bool is_within_call() const;
  [[nodiscard]] bool has_calls_before(std::uint64_t number) const BERTH_REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable returned_;
  Shared callback_ BERTH_GUARDED_BY(mutex_);
  std::uint64_t number_ BERTH_GUARDED_BY(mutex_) = 0;  ///< of callback_; rises with each
  Call* calls_ BERTH_GUARDED_BY(mutex_) = nullptr;     ///< in progress
};

}  // namespace berth
