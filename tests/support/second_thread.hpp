// SPDX-License-Identifier: Apache-2.0
// Another host thread, with its own contexts, default streams and caches. It runs one task at a
// time while the caller waits, so that a test is deterministic.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace berth::test {

class SecondThread {
 public:
  SecondThread() = default;
  ~SecondThread() { end(); }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  /// Returns when `task` has returned; starts the thread if there is none.
  void run(std::function<void()> task) {
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
    std::unique_lock lock(mutex_);
    task_ = std::move(task);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !task_; });
  }
  /// Ends the thread, as a program might; a later run() starts another one.
  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    ending_ = false;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return task_ || ending_; });
      if (!task_) return;
      task_();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;  // guarded by mutex_; empty while there is none
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;
};

}  // namespace berth::test
