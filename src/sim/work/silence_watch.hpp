// SPDX-License-Identifier: Apache-2.0
// The thread that runs work while the program makes no call, in the modes in which calls run it
// (random and timed). A program may wait for its work without the driver: for a lock or a variable
// that a host function signals, or for a word of pinned memory. A device goes on meanwhile.
//
// The thread acts only after a long silence, so that otherwise the calls and the seed alone
// determine the order. Silence is counted in looks and not in time: a process that was stopped as a
// whole, by a debugger or by a busy machine, is not silent. Started by the first work. Guarded by
// sim::mutex.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "sim/lock.hpp"
#include "sim/work/value_wait.hpp"

namespace berth::sim {

class Scheduler;
struct State;

class SilenceWatch {
 public:
  /// `limit_ms` without a call are a silence; 0: nothing ever is.
  SilenceWatch(State& state, Scheduler& scheduler, int limit_ms)
      : state_(state),
        scheduler_(scheduler),
        look_(std::chrono::milliseconds(limit_ms) / kLooks),
        rests_(limit_ms != 0) {}
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  /// Work is pending from now on.
  void note_work() BERTH_REQUIRES(mutex) {
    if (rests_) start();
  }
  void stop() BERTH_EXCLUDES(mutex);

 private:
  /// In a silence, looks at which nothing has changed.
  static constexpr int kLooks = 10;

  void start() BERTH_REQUIRES(mutex);
  void loop() BERTH_EXCLUDES(mutex);
  /// Waits for the next work.
  void rest() BERTH_REQUIRES(mutex);
  /// One look. Whether the program has made no call at the last `kLooks`.
  bool is_silent() BERTH_REQUIRES(mutex);
  /// Whether there was a call after the last look, or one goes on.
  bool is_called() const BERTH_REQUIRES(mutex);
  /// Runs all that may run, until a call comes. May release the lock.
  void run() BERTH_REQUIRES(mutex);

  State& state_;
  Scheduler& scheduler_;
  const std::chrono::microseconds look_;
  bool rests_;  // and note_work() wakes it
  bool stopping_ = false;
  std::uint64_t requests_ = 0;  // Scheduler::requests() at the last look
  int quiet_looks_ = 0;
  Stall stall_;
  ConditionVariable wake_;
  std::thread thread_;
};

}  // namespace berth::sim
