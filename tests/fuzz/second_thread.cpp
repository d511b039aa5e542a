// SPDX-License-Identifier: Apache-2.0
#include "fuzz/second_thread.hpp"

#include <utility>

namespace berth::fuzz {

void SecondThread::run(std::function<void()> task) {
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  std::unique_lock lock(mutex_);
  task_ = std::move(task);
  changed_.notify_all();
  changed_.wait(lock, [&] { return !task_; });
}

void SecondThread::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ending_ = false;
}

void SecondThread::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return task_ || ending_; });
    if (!task_) return;
    task_();
    task_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace berth::fuzz
