// SPDX-License-Identifier: Apache-2.0
// A thread that runs until it is told to end.
#include "base/stoppable_thread.hpp"

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "support/death.hpp"

namespace stoppable_thread_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Counts the threads that have run to their end, and uses the count until then.
struct Counted {
  void start() {
    const MutexLock lock(thread.mutex);
    thread.start("a test", [this] {
      const MutexLock held(thread.mutex);
      while (!thread.is_ending()) thread.changed.wait(thread.mutex);
      ++ended;
    });
  }
  [[nodiscard]] bool is_started() {
    const MutexLock lock(thread.mutex);
    return thread.is_started();
  }

  int ended = 0;
  StoppableThread thread;
};

}  // namespace

TEST_CASE("a thread is started once, and its end is waited for") {
  Counted counted;
  CHECK_FALSE(counted.is_started());
  counted.start();
  counted.start();
  CHECK(counted.is_started());
  counted.thread.end();
  CHECK(counted.ended == 1);
  CHECK_FALSE(counted.is_started());
}

TEST_CASE("a thread that was told to end is not started") {
  Counted counted;
  counted.thread.end();
  counted.start();
  CHECK_FALSE(counted.is_started());
  counted.thread.end();
  CHECK(counted.ended == 0);
}

TEST_CASE("a thread that ends itself stops the process") {
  StoppableThread thread;
  std::atomic<bool> has_words = false;
  std::optional<std::string> words;
  {
    const MutexLock lock(thread.mutex);
    thread.start("a test", [&] {
      // After this no other thread holds the lock, which the child needs.
      { const MutexLock started(thread.mutex); }
      words = last_words([&] { thread.end(); });
      has_words = true;
    });
  }
  while (!has_words) std::this_thread::yield();
  thread.end();
  CHECK(words.has_value());
}

}  // namespace stoppable_thread_test
