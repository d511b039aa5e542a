// SPDX-License-Identifier: Apache-2.0
#include "buffer/task_thread.hpp"

namespace berth {

void TaskThread::post(std::shared_ptr<Task> task) noexcept {
  const MutexLock lock(mutex_);
  Task* const added = task.get();
  (last_ == nullptr ? first_ : last_->next_) = std::move(task);
  last_ = added;
  changed_.notify_one();
}

std::shared_ptr<Task> TaskThread::next() {
  const MutexLock lock(mutex_);
  while (first_ == nullptr && !finishing_) changed_.wait(mutex_);
  if (first_ == nullptr) return nullptr;
  std::shared_ptr<Task> task = std::move(first_);
  first_ = std::move(task->next_);
  if (first_ == nullptr) last_ = nullptr;
  return task;
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
  if (ending.joinable()) ending.join();
}

}  // namespace berth
