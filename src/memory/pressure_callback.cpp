// SPDX-License-Identifier: Apache-2.0
#include "memory/pressure_callback.hpp"

#include <utility>

#include "base/check.hpp"

namespace berth {

/// A call in progress, on the stack of its thread, so that it needs no host memory.
class PressureHook::Call {
 public:
  explicit Call(PressureHook& hook) : hook_(hook), outer_(innermost) {
    const MutexLock lock(hook_.mutex_);
    callback_ = hook_.callback_;
    number_ = hook_.number_;
    next_ = std::exchange(hook_.calls_, this);
    innermost = this;
  }
  ~Call() {
    callback_.reset();  // what it holds is gone when set() returns
    BERTH_CHECK(innermost == this);
    innermost = outer_;
    const MutexLock lock(hook_.mutex_);
    Call** link = &hook_.calls_;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
    hook_.returned_.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] const Shared& callback() const { return callback_; }

 private:
  friend class PressureHook;

  PressureHook& hook_;
  Call* const outer_;  ///< of this thread
  Call* next_;         ///< of the hook, guarded by its mutex
  Shared callback_;
  std::uint64_t number_;
  static constinit thread_local Call* innermost;
};

constinit thread_local PressureHook::Call* PressureHook::Call::innermost = nullptr;

bool PressureHook::is_within_call() const {
  for (const Call* each = Call::innermost; each != nullptr; each = each->outer_) {
    if (&each->hook_ == this) return true;
  }
  return false;
}

bool PressureHook::has_calls_before(std::uint64_t number) const {
  for (const Call* each = calls_; each != nullptr; each = each->next_) {
    if (each->number_ < number) return true;
  }
  return false;
}

void PressureHook::set(PressureCallback callback) {
  Shared installed =
      callback == nullptr ? nullptr : std::make_shared<const PressureCallback>(std::move(callback));
  const bool is_within = is_within_call();
  const MutexLock lock(mutex_);
  std::swap(callback_, installed);  // the former one is destroyed without the lock
  const std::uint64_t number = ++number_;
  // A call of this thread cannot return before this one does, and others may wait for it likewise.
  if (is_within) return;
  while (has_calls_before(number)) returned_.wait(mutex_);
}

bool PressureHook::call(std::size_t bytes_missing) {
  if (is_within_call()) return false;
  const Call current(*this);
  return current.callback() != nullptr && (*current.callback())(bytes_missing);
}

}  // namespace berth
