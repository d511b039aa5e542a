// SPDX-License-Identifier: Apache-2.0
// std::condition_variable for Mutex. std::condition_variable_any would take any lock, but it
// allocates a lock of its own, which each notification takes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/mutex.hpp"

namespace berth {

/// All threads that wait at the same time hold the same Mutex.
///
/// Threads  Safe from any thread. The destructor must not run before the waiting threads have been
///          notified; in a child made by fork(), it may wait for threads of the parent.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  /// Releases the mutex while the thread waits. May return without a notification.
  void wait(Mutex& mutex) BERTH_REQUIRES(mutex) {
    Held held(mutex);
    condition_.wait(held.lock);
  }
  /// Returns after `time` at the latest.
  template <class Rep, class Period>
  void wait_for(Mutex& mutex, const std::chrono::duration<Rep, Period>& time)
      BERTH_REQUIRES(mutex) {
    Held held(mutex);
    condition_.wait_for(held.lock, time);
  }
  template <class Clock, class Duration>
  void wait_until(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& end)
      BERTH_REQUIRES(mutex) {
    Held held(mutex);
    condition_.wait_until(held.lock, end);
  }

 private:
  /// The lock that the caller has, in the form that the standard library wants.
  struct Held {
    explicit Held(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Held() { lock.release(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace berth
