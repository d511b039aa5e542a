// SPDX-License-Identifier: Apache-2.0
// How the allocator detects that a program starts a new iteration.
#include "memory/step_detector.hpp"

#include <doctest/doctest.h>

namespace step_detector_test {

using namespace berth;

namespace {

/// Of a program with one thread, where what is known is exact.
struct Low {
  bool rises_from_low(std::uint64_t bytes) {
    return water.rises_from_low(bytes, [bytes] { return bytes; });
  }
  StepDetector water;
};

}  // namespace

TEST_CASE("a low is reported once live bytes rise again or reach zero") {
  Low low;
  for (const std::uint64_t bytes : {100, 500, 1000, 800, 300, 50}) {
    CHECK_FALSE(low.rises_from_low(bytes));
  }
  CHECK(low.rises_from_low(51));
  CHECK_FALSE(low.rises_from_low(52));
  CHECK_FALSE(low.rises_from_low(1000));
  CHECK(low.rises_from_low(0));
  CHECK_FALSE(low.rises_from_low(0));
}

TEST_CASE("a fall to nine tenths is no low") {
  Low low;
  const auto fall_to = [&](std::uint64_t bytes) {
    low.rises_from_low(1000);
    low.rises_from_low(bytes);
    return low.rises_from_low(bytes + 1);
  };
  for (int step = 0; step < 40; ++step) fall_to(800);
  CHECK(fall_to(800));
  CHECK_FALSE(fall_to(900));
  CHECK(fall_to(890));
}

TEST_CASE("intermediate lows are skipped unless no lower ones follow") {
  Low low;
  int passed = 0;
  const auto fall_to = [&](std::uint64_t bytes) {
    low.rises_from_low(1000);
    low.rises_from_low(bytes);
    return low.rises_from_low(bytes + 1);
  };
  REQUIRE(fall_to(10));
  for (int step = 0; step < 4; ++step) CHECK_FALSE(fall_to(500));
  CHECK(fall_to(10));
  // Now 500 stay: soon that is as low as it gets.
  for (int step = 0; step < 20; ++step) passed += fall_to(500) ? 1 : 0;
  CHECK(passed >= 5);
  CHECK(fall_to(500));
}

TEST_CASE("a low of one thread is not reported if another thread has more") {
  StepDetector low;
  const auto never = []() -> std::uint64_t {
    FAIL("nothing has fallen");
    return 0;
  };
  CHECK_FALSE(low.rises_from_low(1000, never));
  CHECK_FALSE(low.rises_from_low(0 + 1, never));
  CHECK_FALSE(low.rises_from_low(2, [] { return std::uint64_t{980}; }));
  CHECK_FALSE(low.rises_from_low(981, never));
}

}  // namespace step_detector_test
