// SPDX-License-Identifier: Apache-2.0
// One thread that runs tasks in their order. A task is its own entry of the queue, so that posting
// a task allocates no memory and cannot fail.
#pragma once

#include <condition_variable>
#include <memory>
#include <thread>
#include <utility>

#include "base/mutex.hpp"
#include "base/start_thread.hpp"

namespace berth {

class TaskThread;

class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Called once, without a lock.
  virtual void run() noexcept = 0;

 private:
  friend class TaskThread;
  std::shared_ptr<Task> next_;
};

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
  /// Each task at most once.
  void post(std::shared_ptr<Task> task) noexcept BERTH_EXCLUDES(mutex_);
  /// Runs all posted tasks, and ends the thread. Not to be called on the thread.
  void finish() noexcept BERTH_EXCLUDES(mutex_);

 private:
  void loop() BERTH_EXCLUDES(mutex_);
  /// Null at the end.
  std::shared_ptr<Task> next() BERTH_EXCLUDES(mutex_);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::shared_ptr<Task> first_ BERTH_GUARDED_BY(mutex_);
  Task* last_ BERTH_GUARDED_BY(mutex_) = nullptr;
  bool finishing_ BERTH_GUARDED_BY(mutex_) = false;
  std::thread thread_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
