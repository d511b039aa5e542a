// SPDX-License-Identifier: Apache-2.0
// One thread that runs tasks in their order. Posting a task cannot fail.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "base/start_thread.hpp"
#include "base/task_queue.hpp"

namespace berth {

/// Threads  Safe from any thread.
class TaskThread {
 public:
  TaskThread() = default;
  ~TaskThread() { finish(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  /// Starts the thread if there is none. Before the first post().
  /// Errors  Exhausted: the system starts no more threads.
  void start() BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread("buffers of backends", [this] { loop(); });
  }
  /// Each task at most once, and none during or after finish().
  void post(std::shared_ptr<Task> task) noexcept BERTH_EXCLUDES(mutex_);
  /// For a task on the thread: returns once `is_true()`, which is asked at once and after each
  /// wake(), without the lock: it may take locks under which other threads call wake().
  /// Errors  Those of is_true().
  template <class Predicate>
  void wait_until(const Predicate& is_true) BERTH_EXCLUDES(mutex_) {
    for (;;) {
      const std::uint64_t seen = wakes();
      if (is_true()) return;
      wait_for_wake(seen);
    }
  }
  /// After a change that the task on the thread may wait for.
  void wake() noexcept BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++wakes_;
    changed_.notify_one();
  }
  /// Runs all posted tasks, and ends the thread. Not to be called on the thread.
  void finish() noexcept BERTH_EXCLUDES(mutex_);

 private:
  [[nodiscard]] std::uint64_t wakes() const BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return wakes_;
  }
  void wait_for_wake(std::uint64_t seen) BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (wakes_ == seen) changed_.wait(mutex_);
  }
  void loop() BERTH_EXCLUDES(mutex_);
  /// Null at the end.
  std::shared_ptr<Task> next() BERTH_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::uint64_t wakes_ BERTH_GUARDED_BY(mutex_) = 0;
  TaskQueue tasks_ BERTH_GUARDED_BY(mutex_);
  bool finishing_ BERTH_GUARDED_BY(mutex_) = false;
  std::thread thread_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
