// SPDX-License-Identifier: Apache-2.0
// The thread that runs the copies in parts of one device.
#include "buffer/task_thread.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "support/death.hpp"
#include "support/errors.hpp"

namespace task_thread_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Waits until a number has been reached, which is read under a lock.
struct Waiting final : Task {
  explicit Waiting(TaskThread& thread_) : thread(thread_) {}
  void run() noexcept override {
    for (int wanted = 1; wanted <= kRounds; ++wanted) {
      thread.wait_until([&] {
        const std::lock_guard held(lock);
        return reached >= wanted;
      });
      passed = wanted;
    }
  }

  static constexpr int kRounds = 200;
  TaskThread& thread;
  std::mutex lock;
  int reached = 0;  ///< guarded by `lock`
  std::atomic<int> passed = 0;
};

/// Ends the thread that runs it, as the destructor of a Runtime would.
struct Ending final : Task {
  explicit Ending(TaskThread& thread_) : thread(thread_) {}
  void run() noexcept override {
    words = last_words([this] { thread.finish(); }).value_or("it continues");
    has_words = true;
  }

  TaskThread& thread;
  std::string words;
  std::atomic<bool> has_words = false;
};

}  // namespace

TEST_CASE("a task may wait for what is changed under a lock that its question takes, too") {
  TaskThread thread;
  thread.start();
  const auto task = std::make_shared<Waiting>(thread);
  thread.post(task);
  for (int round = 1; round <= Waiting::kRounds; ++round) {
    {
      const std::lock_guard held(task->lock);
      // Long enough for the task to ask for the lock.
      for (int turn = 0; turn < 20; ++turn) std::this_thread::yield();
      task->reached = round;
      thread.wake();
    }
    while (task->passed < round) std::this_thread::yield();
  }
  thread.finish();
  CHECK(task->passed == Waiting::kRounds);
}

TEST_CASE("a task that ends its own thread stops the process, and the program learns why") {
  TaskThread thread;
  thread.start();
  const auto task = std::make_shared<Ending>(thread);
  thread.post(task);
  while (!task->has_words) std::this_thread::yield();
  thread.finish();
  CHECK(contains(task->words, "a Runtime is destroyed in on_done of a copy of a buffer"));
}

}  // namespace task_thread_test
