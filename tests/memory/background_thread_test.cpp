// SPDX-License-Identifier: Apache-2.0
// Work on a thread of its own: on request, and at intervals.
#include "memory/background_thread.hpp"

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include <doctest/doctest.h>

namespace background_thread_test {

using namespace berth;

TEST_CASE("requests are done once each, and those that arrive during the work after it") {
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> may_end(0);
  std::atomic<int> calls = 0;
  BackgroundThread thread([&] {
    ++calls;
    begun.release();
    may_end.acquire();
  });
  thread.request();
  begun.acquire();
  thread.request();  // during the work
  thread.request();  // the same request
  may_end.release(2);
  thread.wait_until_done();
  CHECK(calls == 2);
}

TEST_CASE("without a request or a period no work is done, and none after the end") {
  std::atomic<int> calls = 0;
  BackgroundThread thread([&] { ++calls; });
  thread.wait_until_done();
  CHECK(calls == 0);
  thread.request();
  thread.wait_until_done();
  CHECK(calls == 1);
  CHECK_FALSE(thread.is_ending());
  thread.end();
  CHECK(thread.is_ending());
  CHECK(calls == 1);
}

TEST_CASE("with a period work is done without a request, and on request as well") {
  using namespace std::chrono_literals;
  std::atomic<int> often = 0;
  {
    const BackgroundThread thread([&] { ++often; }, 1ms);
    while (often < 3) std::this_thread::yield();
  }
  std::atomic<int> seldom = 0;
  BackgroundThread thread([&] { ++seldom; }, 1h);
  thread.request();
  thread.wait_until_done();
  CHECK(seldom == 1);
}

}  // namespace background_thread_test
