// SPDX-License-Identifier: Apache-2.0
// Threads that wait for a notification, or for a time.
#include "base/condition_variable.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/mutex.hpp"

namespace condition_variable_test {

using namespace berth;

namespace {

struct Turns {
  Mutex mutex;
  ConditionVariable changed;
  int number BERTH_GUARDED_BY(mutex) = 0;
};

bool is_locked(Mutex& mutex) {
  bool locked = true;
  std::jthread([&] {
    if (!mutex.try_lock()) return;
    mutex.unlock();
    locked = false;
  }).join();
  return locked;
}

}  // namespace

TEST_CASE("two threads take turns by notifications alone") {
  constexpr int kTurns = 200;
  Turns turns;
  const auto take = [&](int remainder) {
    for (int turn = remainder; turn < kTurns; turn += 2) {
      const MutexLock lock(turns.mutex);
      while (turns.number != turn) turns.changed.wait(turns.mutex);
      ++turns.number;
      turns.changed.notify_one();
    }
  };
  std::jthread other([&] { take(1); });
  take(0);
  other.join();
  const MutexLock lock(turns.mutex);
  CHECK(turns.number == kTurns);
}

TEST_CASE("one notification of all wakes all waiting threads") {
  constexpr int kThreads = 8;
  Turns turns;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      const MutexLock lock(turns.mutex);
      ++turns.number;
      while (turns.number <= kThreads) turns.changed.wait(turns.mutex);
    });
  }
  for (bool are_waiting = false; !are_waiting; std::this_thread::yield()) {
    const MutexLock lock(turns.mutex);
    are_waiting = turns.number == kThreads;
    if (are_waiting) ++turns.number;
  }
  turns.changed.notify_all();
}

TEST_CASE("a wait ends at its time, and holds the mutex then") {
  Turns turns;
  const MutexLock lock(turns.mutex);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (std::chrono::steady_clock::now() < end) turns.changed.wait_until(turns.mutex, end);
  CHECK(is_locked(turns.mutex));
  turns.changed.wait_for(turns.mutex, std::chrono::milliseconds(1));
  CHECK(is_locked(turns.mutex));
}

TEST_CASE("a waiting thread does not hold the mutex") {
  Turns turns;
  std::jthread other;
  const MutexLock lock(turns.mutex);
  other = std::jthread([&] {
    const MutexLock inner(turns.mutex);
    turns.number = 1;
    turns.changed.notify_all();
  });
  while (turns.number == 0) turns.changed.wait(turns.mutex);
  CHECK(is_locked(turns.mutex));
}

}  // namespace condition_variable_test
