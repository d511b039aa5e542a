// SPDX-License-Identifier: Apache-2.0
// The current context of the calling thread, as far as the innermost guard knows it without a
// driver query; outside of guards, the context that berth saw last. Code in berth that makes
// another context current while a guard may exist must report it here, because guards inside rely
// on it.
#pragma once

#include <cstddef>

#include "berth/device_guard.hpp"

#include "device/device_context.hpp"

namespace berth {

/// Threads  Each thread has its own.
class KnownContext {
 public:
  /// The device whose primary context is current; null outside of guards, and if it is not known.
  [[nodiscard]] static DeviceContext* get() noexcept {
    return innermost_ == nullptr ? nullptr : innermost_->known_;
  }
  /// Whether the device's context is current, or was at the thread's last query; other code may
  /// have changed it since. For calls that do not depend on it, or that the driver then refuses.
  [[nodiscard]] static bool is_likely(DeviceContext& context) {
    if (innermost_ != nullptr && innermost_->known_ != nullptr) return get() == &context;
    return seen_ != nullptr && context.is_used() && seen_ == context.primary();
  }
  /// The context that the driver reported as current, outside of berth's own scopes.
  static void set_observed(CUcontext current) noexcept { seen_ = current; }

  /// Has no effect outside of guards, where nothing would correct it.
  static void set(DeviceContext* context) noexcept {
    if (innermost_ != nullptr) innermost_->known_ = context;
  }
  /// After a context that berth could not restore or has not seen: no guard of the thread relies on
  /// a known context.
  static void forget() noexcept {
    for (DeviceGuard* guard = innermost_; guard != nullptr; guard = guard->outer_)
      guard->known_ = nullptr;
  }
  /// Forgets the known context if the driver reported another one as current.
  static void compare(CUcontext current) {
    DeviceContext* const known = get();
    if (known != nullptr && known->primary() != current) forget();
  }

  /// The guards of this thread that belong to the driver's Runtime, which ends, have no effect any
  /// more. Returns their number. Guards that no other Runtime's guard is inside of restore the
  /// context first.
  static std::size_t end_guards(const Driver& driver) noexcept {
    std::size_t ended = 0;
    bool is_innermost = true;
    for (DeviceGuard* guard = innermost_; guard != nullptr; guard = guard->outer_) {
      if (guard->known_ != nullptr && &guard->known_->driver() == &driver && !owns(driver, *guard))
        guard->known_ = nullptr;
      if (owns(driver, *guard)) {
        if (is_innermost && (guard->pushed_ || guard->known_ != guard->context_)) guard->leave();
        guard->context_ = nullptr;
        guard->known_ = nullptr;
        guard->pushed_ = false;
        ++ended;
      }
      is_innermost = is_innermost && guard->context_ == nullptr;
    }
    return ended;
  }

 private:
  friend class DeviceGuard;

  static bool owns(const Driver& driver, const DeviceGuard& guard) {
    return guard.context_ != nullptr && &guard.context_->driver() == &driver;
  }

  /// Inline in each constructor, because a delegating constructor is a call of an exported
  /// function.
  static void begin(DeviceGuard& guard) {
    if (guard.outer_ == nullptr || guard.outer_->known_ != guard.context_) guard.enter();
    innermost_ = &guard;
  }

  /// In the static TLS block, so that an access is one instruction and no call.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local DeviceGuard* innermost_;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local CUcontext seen_;
};

}  // namespace berth
