// SPDX-License-Identifier: Apache-2.0
// Tasks for a thread, in their order. A task is its own entry of the queue, so that adding a task
// allocates no memory and cannot fail.
#pragma once

#include <memory>
#include <utility>

#include "base/check.hpp"

namespace berth {

class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Called once, without a lock.
  virtual void run() noexcept = 0;

 private:
  friend class TaskQueue;
  std::shared_ptr<Task> next_;
};

/// Threads  Guarded by the lock of its owner.
class TaskQueue {
 public:
  /// Each task at most once.
  void add(std::shared_ptr<Task> task) noexcept {
    Task* const added = task.get();
    BERTH_CHECK(added->next_ == nullptr && added != last_);  // added once
    (last_ == nullptr ? first_ : last_->next_) = std::move(task);
    last_ = added;
  }
  /// The oldest task; null if there is none.
  [[nodiscard]] std::shared_ptr<Task> take() noexcept {
    if (first_ == nullptr) return nullptr;
    std::shared_ptr<Task> task = std::move(first_);
    first_ = std::move(task->next_);
    if (first_ == nullptr) last_ = nullptr;
    return task;
  }
  [[nodiscard]] bool is_empty() const { return first_ == nullptr; }

 private:
  std::shared_ptr<Task> first_;
  Task* last_ = nullptr;
};

}  // namespace berth
