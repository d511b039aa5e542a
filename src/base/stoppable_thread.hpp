// SPDX-License-Identifier: Apache-2.0
// A thread that runs until it is told to end.
#pragma once

#include <thread>
#include <utility>

#include "base/check.hpp"
#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "base/start_thread.hpp"

namespace berth {

/// The last member of the class whose work it does, so that it ends before the state that it uses.
/// Not destroyed in a forked child, which has no such thread: its owner keeps it (keep_until_exit).
/// Threads  Safe from any thread.
class StoppableThread {
 public:
  StoppableThread() = default;
  ~StoppableThread() { end(); }
  StoppableThread(const StoppableThread&) = delete;
  StoppableThread& operator=(const StoppableThread&) = delete;

  /// Runs run() on the thread, which waits for `changed` and returns once is_ending(). No effect if
  /// the thread has been started, or told to end. `purpose` is for the error, as in start_thread().
  /// Errors  Exhausted: the system starts no more threads.
  template <class Run>
  void start(const char* purpose, Run run) BERTH_REQUIRES(mutex) {
    if (!is_ending_ && !is_started()) thread_ = start_thread(purpose, std::move(run));
  }
  /// False also once the thread has been told to end.
  [[nodiscard]] bool is_started() const BERTH_REQUIRES(mutex) { return thread_.joinable(); }
  [[nodiscard]] bool is_ending() const BERTH_REQUIRES(mutex) { return is_ending_; }
  /// Whether the caller is the thread, which must not end itself.
  [[nodiscard]] bool is_current() const BERTH_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return thread_.get_id() == std::this_thread::get_id();
  }

  /// Tells the thread to end, and waits for it.
  void end() noexcept BERTH_EXCLUDES(mutex) {
    std::thread ending;
    {
      const MutexLock lock(mutex);
      is_ending_ = true;
      ending = std::move(thread_);
      changed.notify_all();
    }
    BERTH_CHECK(ending.get_id() != std::this_thread::get_id());
    if (ending.joinable()) ending.join();
  }

  /// Guards what the thread shares with its owner.
  mutable Mutex mutex;
  /// Something for the thread to do; its owner may use it for other changes as well.
  ConditionVariable changed;

 private:
  bool is_ending_ BERTH_GUARDED_BY(mutex) = false;
  std::thread thread_ BERTH_GUARDED_BY(mutex);
};

}  // namespace berth
