// SPDX-License-Identifier: Apache-2.0
#include "sim/device/driver_lock.hpp"

#include <algorithm>

#include "sim/check/progress.hpp"
#include "sim/device/context.hpp"
#include "sim/state.hpp"

namespace berth::sim {

DriverLock::Held::Held(DriverLock& lock, Handle context, const CallSite& call)
    : lock_(nullptr), context_(context) {
  if (!lock.on_) return;
  // A call that was let in after a finding may wait beside the holder.
  const bool taken = lock.holders_.try_emplace(context, Holder{this_thread().id, call}).second;
  if (taken) lock_ = &lock;
}

DriverLock::Held::~Held() {
  if (lock_ == nullptr) return;
  lock_->holders_.erase(context_);
  lock_->released_.notify_all();
}

bool DriverLock::held_by_another(Handle context) const {
  const auto holder = holders_.find(context);
  if (holder == holders_.end()) return false;
  const std::uint64_t thread = this_thread().id;
  const std::vector<std::uint64_t>& exempt_threads = holder->second.exempt_threads;
  return holder->second.thread != thread &&
         std::find(exempt_threads.begin(), exempt_threads.end(), thread) == exempt_threads.end();
}

void DriverLock::await_release(State& state, Handle context, const CallSite& call) {
  Stall stall;
  ++awaited_;
  while (held_by_another(context)) {
    released_.wait_for(mutex, kValuePollInterval);
    if (!held_by_another(context)) break;
    if (!stall.lasts(true, state.scheduler.steps(), state.config.stall_ms)) continue;
    Holder& holder = holders_.at(context);
    report_driver_lock(state, call, holder.call);
    holder.exempt_threads.push_back(this_thread().id);
    break;
  }
  --awaited_;
}

}  // namespace berth::sim
