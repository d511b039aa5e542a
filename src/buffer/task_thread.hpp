// SPDX-License-Identifier: Apache-2.0
// One thread that runs tasks in their order. Posting a task cannot fail.
#pragma once

#include <cstdint>
#include <memory>

#include "base/stoppable_thread.hpp"
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
  void start() BERTH_EXCLUDES(thread_.mutex) {
    const MutexLock lock(thread_.mutex);
    thread_.start("buffers of backends", [this] { loop(); });
  }
  /// Each task at most once, and none during or after finish().
  void post(std::shared_ptr<Task> task) noexcept BERTH_EXCLUDES(thread_.mutex);
  /// For a task on the thread: returns once `is_true()`, which is asked at once and after each
  /// wake(), without the lock: it may take locks under which other threads call wake().
  /// Errors  Those of is_true().
  template <class Predicate>
  void wait_until(const Predicate& is_true) BERTH_EXCLUDES(thread_.mutex) {
    for (;;) {
      const std::uint64_t seen = wakes();
      if (is_true()) return;
      wait_for_wake(seen);
    }
  }
  /// After a change that the task on the thread may wait for.
  void wake() noexcept BERTH_EXCLUDES(thread_.mutex) {
    const MutexLock lock(thread_.mutex);
    ++wakes_;
    thread_.changed.notify_one();
  }
  /// Runs all posted tasks, and ends the thread. Not to be called on the thread.
  void finish() noexcept BERTH_EXCLUDES(thread_.mutex);

 private:
  [[nodiscard]] std::uint64_t wakes() const BERTH_EXCLUDES(thread_.mutex) {
    const MutexLock lock(thread_.mutex);
    return wakes_;
  }
  void wait_for_wake(std::uint64_t seen) BERTH_EXCLUDES(thread_.mutex) {
    const MutexLock lock(thread_.mutex);
    while (wakes_ == seen) thread_.changed.wait(thread_.mutex);
  }
  void loop() BERTH_EXCLUDES(thread_.mutex);
  /// Null at the end.
  std::shared_ptr<Task> next() BERTH_EXCLUDES(thread_.mutex);

  std::uint64_t wakes_ BERTH_GUARDED_BY(thread_.mutex) = 0;
  TaskQueue tasks_ BERTH_GUARDED_BY(thread_.mutex);
  StoppableThread thread_;
};

}  // namespace berth
