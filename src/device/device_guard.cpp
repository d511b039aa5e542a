// SPDX-License-Identifier: Apache-2.0
// A thread's guards form an intrusive list from the innermost outwards. It needs no allocation, and
// is still valid when static objects are destroyed at exit.
#include "berth/device_guard.hpp"

#include "berth/device_registry.hpp"

#include "base/check.hpp"
#include "device/known_context.hpp"

namespace berth {

[[gnu::tls_model("initial-exec")]] constinit thread_local DeviceGuard* KnownContext::innermost_ =
    nullptr;
[[gnu::tls_model("initial-exec")]] constinit thread_local CUcontext KnownContext::seen_ = nullptr;

DeviceGuard::DeviceGuard(const DeviceRegistry& registry, Device device)
    : context_(&registry.context(device)), known_(context_), outer_(KnownContext::innermost_) {
  KnownContext::begin(*this);
}

DeviceGuard::DeviceGuard(DeviceContext& context)
    : context_(&context), known_(&context), outer_(KnownContext::innermost_) {
  KnownContext::begin(*this);
}

DeviceGuard::~DeviceGuard() {
  BERTH_CHECK_USE(
      KnownContext::innermost_ == this,
      "a DeviceGuard or StreamGuard ends on another thread than the one that made it, or "
      "before a guard that was made later");
  KnownContext::innermost_ = outer_;
  if (pushed_ || known_ != context_) leave();
}

void DeviceGuard::enter() {
  BERTH_CHECK(!pushed_);
  const Driver& driver = context_->driver();
  const CUcontext wanted = context_->primary();
  driver.ctx_get_current(&before_);
  if (before_ == wanted) return;
  driver.ctx_push_current(wanted);
  pushed_ = true;
}

void DeviceGuard::leave() noexcept {
  if (context_ == nullptr) return;  // its Runtime has ended, and has undone the change
  KnownContext::set_observed(nullptr);
  const bool restored =
      pushed_ ? pop_to_before() : context_->driver().ctx_set_current_or_report(context_->primary());
  if (!restored) KnownContext::forget();
}

bool DeviceGuard::pop_to_before() const noexcept {
  const Driver& driver = context_->driver();
  for (;;) {
    CUcontext popped = nullptr;
    driver.ctx_pop_current_or_report(&popped);
    if (popped == context_->primary() && known_ == context_) return true;
    // The code inside left another context in the place of the pushed one or above it, or popped
    // it.
    CUcontext current = nullptr;
    if (!driver.ctx_get_current_or_report(&current)) return false;
    if (current == before_) return true;
    if (current == nullptr) return driver.ctx_push_current_or_report(before_);
    if (popped == nullptr) return false;  // the driver refuses, or has shut down
  }
}

}  // namespace berth
