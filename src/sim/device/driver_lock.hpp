// SPDX-License-Identifier: Apache-2.0
// The lock that a driver holds for each context, if configured: a waiting call blocks calls of
// other threads in its context. Guarded by sim::mutex, which is released in every wait. Source:
// pytorch/pytorch, pull request 130844: cudaEventQuery "can hang if another thread is holding the
// CUDA global context lock", as in cudaStreamSynchronize.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"

namespace berth::sim {

struct State;

class DriverLock {
 public:
  /// Holds the lock of a context for the thread during a wait.
  class Held {
   public:
    Held(DriverLock& lock, Handle context, const CallSite& call) BERTH_REQUIRES(mutex);
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    DriverLock* lock_;  // null where there is nothing to give back
    Handle context_;
  };

  explicit DriverLock(bool on) : on_(on) {}

  /// Returns once no call of another thread waits in `context`. If nothing has run for stall_ms,
  /// reports a finding and returns, for this and every later call of the thread while that call
  /// waits. May release sim::mutex, which invalidates pointers into the state.
  void await(State& state, Handle context, const CallSite& call) BERTH_REQUIRES(mutex) {
    if (on_ && held_by_another(context)) await_release(state, context, call);
  }
  /// Whether a call is blocked.
  [[nodiscard]] bool is_awaited() const { return awaited_ != 0; }

 private:
  struct Holder {
    std::uint64_t thread;  // ThreadState::id
    CallSite call;
    std::vector<std::uint64_t> exempt_threads = {};  // threads that a finding lets enter beside it
  };

  [[nodiscard]] bool held_by_another(Handle context) const;
  void await_release(State& state, Handle context, const CallSite& call) BERTH_REQUIRES(mutex);

  const bool on_;
  std::unordered_map<Handle, Holder> holders_;  // by context
  int awaited_ = 0;
  ConditionVariable released_;
};

}  // namespace berth::sim
