// SPDX-License-Identifier: Apache-2.0
// One part of a copy that is made part by part.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "buffer/task_thread.hpp"

namespace berth {

/// Shared by the task that copies the part, and the operation of the backend that uses it.
struct Part {
  explicit Part(TaskThread& thread_, std::span<std::byte> memory_ = {})
      : thread(thread_), memory(memory_) {}

  TaskThread& thread;                 ///< of the task, which waits there for the end of the use
  const std::span<std::byte> memory;  ///< empty: the program's own is copied
  std::atomic<bool> is_busy = false;  ///< an operation uses it
};

}  // namespace berth
