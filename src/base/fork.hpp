// SPDX-License-Identifier: Apache-2.0
// Telling a process from its copy. fork() copies one thread and all memory: locks that other
// threads held stay locked for ever, and CUDA does not work in the copy.
#pragma once

#include <memory>
#include <string_view>

namespace berth {

/// Identifies the process that created an object.
/// Threads  Immutable.
class ForkOrigin {
 public:
  ForkOrigin();
  /// Whether this is still that process, and not a copy made by fork() since.
  [[nodiscard]] bool is_here() const { return generation_ == current_; }
  /// Errors  NotSupported, where it is a copy: `what` belongs to the parent.
  void require_here(std::string_view what) const {
    if (!is_here()) refuse(what);
  }

 private:
  [[noreturn]] static void refuse(std::string_view what);

  static int current_;  ///< how many times a fork() led here
  const int generation_;
};

/// For what a forked child cannot destroy, because its end would wait for threads that only the
/// parent has: it stays until the process ends, where leak checkers see it.
void keep_until_exit(std::shared_ptr<const void> kept) noexcept;

/// Calls `prepare` before each fork() of this process, `parent` and `child` after it, on the thread
/// that forks. For the whole life of the process.
void at_fork(void (*prepare)(), void (*parent)(), void (*child)());

}  // namespace berth
