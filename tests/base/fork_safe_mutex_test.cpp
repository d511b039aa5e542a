// SPDX-License-Identifier: Apache-2.0
#include "base/fork_safe_mutex.hpp"

#include <atomic>
#include <memory>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/child_process.hpp"

namespace fork_safe_mutex_test {

using namespace berth;
using namespace berth::test;

TEST_CASE(
    "a forked child finds the mutex free and the guarded state consistent, whichever thread held "
    "it") {
  ForkSafeMutex mutex;
  ForkSafeMutex other;
  int first = 0;
  int second = 0;
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      const MutexLock lock(mutex);
      ++first;
      std::this_thread::yield();
      ++second;
    }
  });
  for (int round = 0; round < 100; ++round) {
    CHECK(exit_code_of([&] {
            alarm(kHangSeconds);
            const MutexLock lock(mutex);
            const MutexLock lock_other(other);
            _exit(first == second ? 0 : 1);
            return 2;
          }) == 0);
  }
  stop = true;
  busy.join();
}

TEST_CASE("a destroyed mutex does not block a fork") {
  auto mutex = std::make_unique<ForkSafeMutex>();
  mutex.reset();
  CHECK(exit_code_of([] { return 3; }) == 3);
  const ForkSafeMutex later;
  CHECK(exit_code_of([] { return 4; }) == 4);
}

}  // namespace fork_safe_mutex_test
