// SPDX-License-Identifier: Apache-2.0
// The lock that a driver holds for each context, where the configuration asks for it: a call that
// waits keeps the calls of other threads in its context from entering. sim::mutex, which is let go
// of in every wait, guards this. Source: pytorch/pytorch, pull request 130844: cudaEventQuery "can
// hang if another thread is holding the CUDA global context lock", as in cudaStreamSynchronize.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"

namespace berth::sim {

struct State;

class DriverLock {
 public:
  /// Keeps the lock of a context for this thread while it waits.
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

  /// Returns once no other thread's call waits in `context`. Where nothing has run for stall_ms,
  /// that is a finding, and it returns as well: then, and for every later call of this thread while
  /// that call waits. May let go of sim::mutex: no pointer into the state holds afterwards.
  void await(State& state, Handle context, const CallSite& call) BERTH_REQUIRES(mutex) {
    if (on_ && held_by_another(context)) await_release(state, context, call);
  }
  /// Whether a call cannot enter.
  [[nodiscard]] bool is_awaited() const { return awaited_ != 0; }

 private:
  struct Holder {
    std::uint64_t thread;  // ThreadState::id
    CallSite call;
    std::vector<std::uint64_t> let_in = {};  // threads that a finding lets enter beside it
  };

  [[nodiscard]] bool held_by_another(Handle context) const;
  void await_release(State& state, Handle context, const CallSite& call) BERTH_REQUIRES(mutex);

  const bool on_;
  std::unordered_map<Handle, Holder> holders_;  // by context
  int awaited_ = 0;
  std::condition_variable_any released_;
};

}  // namespace berth::sim
