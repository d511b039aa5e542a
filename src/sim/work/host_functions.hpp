// SPDX-License-Identifier: Apache-2.0
// The thread that runs the functions of cuLaunchHostFunc and cuStreamAddCallback, one by one and
// without the lock, as a thread of the driver does. Started by the first function. Guarded by
// sim::mutex.
#pragma once

#include <deque>
#include <thread>

#include "base/condition_variable.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

class Scheduler;

class HostFunctions {
 public:
  explicit HostFunctions(Scheduler& scheduler) : scheduler_(scheduler) {}
  HostFunctions(const HostFunctions&) = delete;
  HostFunctions& operator=(const HostFunctions&) = delete;

  /// Queues a function. After it has returned, Scheduler::finish_host_function(stream) is called if
  /// `stream` is not 0. `status`: the argument of a callback. `done`: work that the thread then
  /// observes to be complete.
  void start(Handle stream, const HostFunctionWork& work, CUresult status, Clock done = {})
      BERTH_REQUIRES(mutex);
  /// Waits for the running function, and drops the others. Must be the last call.
  void stop() BERTH_EXCLUDES(mutex);
  /// Whether this is that thread.
  [[nodiscard]] bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// Whether a function runs or is queued.
  [[nodiscard]] bool is_busy() const { return runs_ || !entries_.empty(); }
  /// The stream whose function runs; 0 if none runs, or a function without a stream.
  [[nodiscard]] Handle running_for() const { return running_for_; }

 private:
  struct Entry {
    Handle stream;
    HostFunctionWork work;
    CUresult status;
    Clock done;
  };

  void loop() BERTH_EXCLUDES(mutex);

  Scheduler& scheduler_;
  std::deque<Entry> entries_;
  bool runs_ = false;
  Handle running_for_ = 0;
  bool stopping_ = false;
  ConditionVariable wake_;
  std::thread thread_;
};

}  // namespace berth::sim
