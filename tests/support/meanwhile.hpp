// SPDX-License-Identifier: Apache-2.0
// A task of another thread while this one is in the middle of a call, for which the task may have
// to wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <unistd.h>
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

  /// Returns when the task is done or blocked.
  void start() {
    thread_ = std::thread([this] {
      thread_id_ = ::gettid();
      task_();
      is_done_ = true;
    });
    int asleep = 0;  // consecutive observations, because a thread may wait for a lock for a moment
    for (int looks = 0; looks < 20'000 && asleep < 50 && !is_done_; ++looks) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      asleep = is_asleep() ? asleep + 1 : 0;
    }
    was_done_ = is_done_;
  }
  void join() { thread_.join(); }
  /// Whether it was done when start() returned.
  [[nodiscard]] bool was_done() const { return was_done_; }

 private:
  /// Whether the thread is blocked in the kernel, not only without a processor.
  [[nodiscard]] bool is_asleep() const {
    std::ifstream file("/proc/self/task/" + std::to_string(thread_id_) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // the state follows the name
    return name_end != std::string::npos && text.compare(name_end, 4, ") S ") == 0;
  }

  std::function<void()> task_;
  std::atomic<pid_t> thread_id_ = 0;
  std::atomic<bool> is_done_ = false;
  bool was_done_ = false;
  std::thread thread_;
};

}  // namespace berth::test
