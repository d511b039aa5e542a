// SPDX-License-Identifier: Apache-2.0
#include "buffer/task_thread.hpp"

#include <utility>

#include "base/check.hpp"

namespace berth {

void TaskThread::post(std::shared_ptr<Task> task) noexcept {
  const MutexLock lock(thread_.mutex);
  BERTH_CHECK(thread_.is_started());  // or no thread would run the task
  tasks_.add(std::move(task));
  thread_.changed.notify_one();
}

std::shared_ptr<Task> TaskThread::next() {
  const MutexLock lock(thread_.mutex);
  while (tasks_.is_empty() && !thread_.is_ending()) thread_.changed.wait(thread_.mutex);
  return tasks_.take();
}

void TaskThread::loop() {
  while (const std::shared_ptr<Task> task = next()) task->run();
}

void TaskThread::finish() noexcept {
  BERTH_CHECK_USE(
      !thread_.is_current(),
      "a Runtime is destroyed in on_done of a copy of a buffer, or by the owner that the "
      "copy releases (keep_alive)");
  thread_.end();
}

}  // namespace berth
