// SPDX-License-Identifier: Apache-2.0
// Waits of streams for values in memory (cuStreamWaitValue). Such a wait can end without a driver
// call, because another thread may write pinned memory. So a call that waits for the stream polls
// the memory, and in eager mode a thread polls it if no call waits. A wait that never ends would
// hang the process silently, so the waiting host call reports it after `stall_ms`, and the context
// fails with CUDA_ERROR_LAUNCH_TIMEOUT. Guarded by sim::mutex.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "base/condition_variable.hpp"
#include "sim/device/context.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

class Scheduler;
struct State;

/// The longest polling interval.
inline constexpr std::chrono::milliseconds kValuePollInterval{1};

/// How long to sleep between polls: short after progress, because a gate is often opened soon after
/// the one before it, and then up to kValuePollInterval.
class PollInterval {
 public:
  std::chrono::microseconds next(std::uint64_t steps) {
    next_ = steps == steps_ ? std::min(2 * next_, kMax) : kMin;
    steps_ = steps;
    return next_;
  }

 private:
  static constexpr std::chrono::microseconds kMin{30};
  static constexpr std::chrono::microseconds kMax = kValuePollInterval;

  std::chrono::microseconds next_ = kMin;
  std::uint64_t steps_ = 0;  ///< Scheduler::steps() at the last poll
};

/// Whether `wait` can end: the value is in memory, or the wait can only fault.
bool value_is_there(State& state, const Context& context, const WaitValueWork& wait);
/// Stores `bytes` of `value` atomically.
void store_value(std::byte* target, std::uint64_t value, unsigned bytes);
/// "the 32 bits at 0x7f0000000000, now 0, to reach 1": what `wait` of `stream` waits for.
std::string describe(State& state, const Stream& stream, const WaitValueWork& wait);
/// Reports `wait`, the head of `stream`, and fails its context.
void fail_wait(State& state, const Stream& stream, const WaitValueWork& wait);

/// Measures the time without progress.
class Stall {
 public:
  /// Whether the condition `holds`, and has held for `limit_ms` without a change of
  /// Scheduler::steps().
  bool lasts(bool holds, std::uint64_t steps, int limit_ms);
  /// The same for a condition that holds and is polled: a pause of half of `limit_ms` between
  /// queries restarts the measurement.
  bool lasts_while_polled(std::uint64_t steps, int limit_ms);

 private:
  using Clock = std::chrono::steady_clock;
  bool holding_ = false;
  std::uint64_t steps_ = 0;
  Clock::time_point since_;
  Clock::time_point asked_;
};

/// The thread that resumes eager work after the host has written a value. Started by the first
/// wait.
class ValueWatch {
 public:
  explicit ValueWatch(Scheduler& scheduler) : scheduler_(scheduler) {}
  ValueWatch(const ValueWatch&) = delete;
  ValueWatch& operator=(const ValueWatch&) = delete;

  void start() BERTH_REQUIRES(mutex);
  void stop() BERTH_EXCLUDES(mutex);

 private:
  void loop() BERTH_EXCLUDES(mutex);

  Scheduler& scheduler_;
  bool stopping_ = false;
  ConditionVariable wake_;
  std::thread thread_;
};

}  // namespace berth::sim
