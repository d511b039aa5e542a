// SPDX-License-Identifier: Apache-2.0
// A second thread that runs tasks while the first waits for it, as in a program whose forward and
// backward pass run on different threads.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace berth::bench {

class TurnTaker {
 public:
  TurnTaker() : thread_([this] { run(); }) {}
  ~TurnTaker() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  TurnTaker(const TurnTaker&) = delete;
  TurnTaker& operator=(const TurnTaker&) = delete;

  /// Runs `turn` on the thread, and waits for it. Rethrows its exception.
  void take_turn(std::function<void()> turn) {
    std::unique_lock lock(mutex_);
    turn_ = std::move(turn);
    changed_.notify_all();
    changed_.wait(lock, [this] { return turn_ == nullptr; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || turn_ != nullptr; });
      if (turn_ == nullptr) return;
      try {
        turn_();
      } catch (...) {
        failure_ = std::current_exception();
      }
      turn_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> turn_;
  std::exception_ptr failure_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace berth::bench
