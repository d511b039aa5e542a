// SPDX-License-Identifier: Apache-2.0
// Ends the functions in the options of a runtime: berth_runtime_end_callbacks().
#pragma once

#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth::capi {

/// Threads  Safe from any thread. In a forked child nothing is ended.
class CallbackGate {
 public:
  /// Calls `function` and returns true, or false once end() has been called.
  template <class Function>
  bool call(const Function& function) {
    if (!origin_.is_here()) {
      function();
      return true;
    }
    const Pass pass(*this);
    if (pass.is_refused) return false;
    function();
    return true;
  }

  /// Waits for the functions that are running; none is called from now on.
  void end() {
    if (!origin_.is_here()) return;
    MutexLock lock(mutex_);
    is_ended_ = true;
    while (running_ > 0) idle_.wait(mutex_);
  }

 private:
  /// A scope, because a thread may also end within the function, by pthread_exit().
  struct Pass {
    explicit Pass(CallbackGate& gate_) : gate(gate_) {
      MutexLock lock(gate.mutex_);
      is_refused = gate.is_ended_;
      if (!is_refused) ++gate.running_;
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      if (is_refused) return;
      MutexLock lock(gate.mutex_);
      if (--gate.running_ == 0) gate.idle_.notify_all();
    }
    CallbackGate& gate;
    bool is_refused = false;
  };

  const ForkOrigin origin_;
  Mutex mutex_;
  ConditionVariable idle_;
  int running_ BERTH_GUARDED_BY(mutex_) = 0;
  bool is_ended_ BERTH_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::capi
