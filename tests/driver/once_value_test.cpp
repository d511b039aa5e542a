// SPDX-License-Identifier: Apache-2.0
#include "driver/once_value.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "sim/simulator.hpp"
#include "support/child_process.hpp"
#include "support/driver_tap.hpp"
#include "support/errors.hpp"

namespace once_value_test {

using namespace berth;
using namespace berth::test;

namespace {

struct OnSimulator {
  sim::Simulator simulator{sim::Config{}};
  DriverTap tap;
  Driver driver{tap.source(), {}};
};

}  // namespace

TEST_CASE_FIXTURE(OnSimulator, "one of several threads that request a value at once creates it") {
  for (int round = 0; round < 50; ++round) {
    OnceValue<int> made;
    CHECK(made.find() == nullptr);
    std::atomic<int> makes = 0;
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        if (made.get(driver, [&] { return 6 + ++makes; }) == 7) ++right;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(makes == 1);
    CHECK(right == 4);
    REQUIRE(made.find() != nullptr);
    CHECK(*made.find() == 7);
  }
}

TEST_CASE_FIXTURE(OnSimulator,
                  "if the creation throws, no value is kept and the next request tries again") {
  OnceValue<int> made;
  const auto fail = []() -> int { throw std::runtime_error("no"); };
  CHECK_THROWS_AS(made.get(driver, fail), std::runtime_error);
  CHECK(made.find() == nullptr);
  CHECK_THROWS_AS(made.get(driver, fail), std::runtime_error);
  CHECK(made.get(driver, [] { return 7; }) == 7);
}

TEST_CASE_FIXTURE(
    OnSimulator,
    "a forked child has the created values and does not wait for creations in progress") {
  OnceValue<int> before;
  before.get(driver, [] { return 7; });
  OnceValue<int> meanwhile;
  std::atomic<bool> is_inside = false;
  std::atomic<bool> may_end = false;
  std::thread maker([&] {
    meanwhile.get(driver, [&] {
      is_inside = true;
      while (!may_end) std::this_thread::yield();
      return 8;
    });
  });
  while (!is_inside) std::this_thread::yield();
  CHECK(exit_code_without_waiting([&] {
          const auto make = [] { return 9; };
          return before.get(driver, make) == 7 && meanwhile.find() == nullptr &&
                 is_refused_after_fork([&] { meanwhile.get(driver, make); });
        }) == 0);
  may_end = true;
  maker.join();
  CHECK(*meanwhile.find() == 8);
}

}  // namespace once_value_test
