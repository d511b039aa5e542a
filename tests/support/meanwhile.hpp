// SPDX-License-Identifier: Apache-2.0
// What another thread does while this one is in the middle of a call, and may have to wait for it. It is
// given many turns, and may come late: then it is in order anyway.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace berth::test {

class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> task) : task_(std::move(task)) {}
  ~Meanwhile() {
    if (thread_.joinable()) thread_.join();
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

  void start() {
    thread_ = std::thread([this] {
      task_();
      is_done_ = true;
    });
    for (int turns = 0; turns < 10'000 && !is_done_; ++turns) std::this_thread::yield();
    was_done_ = is_done_;
  }
  void join() { thread_.join(); }
  /// Whether it was done when start() returned.
  [[nodiscard]] bool was_done() const { return was_done_; }

 private:
  std::function<void()> task_;
  std::atomic<bool> is_done_ = false;
  bool was_done_ = false;
  std::thread thread_;
};

}  // namespace berth::test
