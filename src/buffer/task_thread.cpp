// SPDX-License-Identifier: Apache-2.0
#include "buffer/task_thread.hpp"

#include "base/check.hpp"

namespace berth {

void TaskThread::post(std::shared_ptr<Task> task) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(thread_.joinable() && !finishing_);  // or no thread would run the task
  tasks_.add(std::move(task));
  changed_.notify_one();
}

std::shared_ptr<Task> TaskThread::next() {
  const MutexLock lock(mutex_);
  while (tasks_.is_empty() && !finishing_) changed_.wait(mutex_);
  return tasks_.take();
}

void TaskThread::loop() {
  while (const std::shared_ptr<Task> task = next()) task->run();
}

void TaskThread::finish() noexcept {
  std::thread ending;
  {
    const MutexLock lock(mutex_);
    finishing_ = true;
    ending = std::move(thread_);
    changed_.notify_one();
  }
  BERTH_CHECK_USE(
      ending.get_id() != std::this_thread::get_id(),
      "a Runtime is destroyed in on_done of a copy of a buffer, or by the owner that the "
      "copy releases (keep_alive)");
  if (ending.joinable()) ending.join();
}

}  // namespace berth
