// SPDX-License-Identifier: Apache-2.0
// How the allocator estimates a program's quiescent moments.
#include "memory/order/quiescence_stats.hpp"

#include <doctest/doctest.h>

namespace quiescence_stats_test {

using namespace berth;

namespace {

constexpr OwnerId kRed = 1;

}  // namespace

TEST_CASE("requests query streams until one is busy, and again after a quiescent moment") {
  QuiescenceStats quiescence;
  for (int request = 0; request < 4; ++request) CHECK(quiescence.is_expected());
  quiescence.record_busy(kRed);
  CHECK_FALSE(quiescence.is_expected());
  CHECK(quiescence.is_expected());
  for (int question = 0; question < 10; ++question) quiescence.record_busy(kRed);
  int asked = 0;
  for (int request = 0; request < 30; ++request) asked += quiescence.is_expected() ? 1 : 0;
  CHECK(asked == 10);
  quiescence.record_idle();
  CHECK(quiescence.is_expected());
  CHECK(quiescence.is_expected());
}

TEST_CASE("quiescent moments are frequent if every fourth query finds one") {
  QuiescenceStats quiescence;
  CHECK(quiescence.are_frequent());  // nothing speaks against it
  quiescence.record_idle();
  for (int question = 0; question < 3; ++question) quiescence.record_busy(kRed);
  CHECK(quiescence.are_frequent());
  quiescence.record_idle();
  for (int question = 0; question < 4; ++question) quiescence.record_busy(kRed);
  CHECK_FALSE(quiescence.are_frequent());
  CHECK(quiescence.are_frequent());  // since the last time only
}

TEST_CASE("a request without a query counts as busy") {
  QuiescenceStats quiescence;
  quiescence.record_idle();
  for (int question = 0; question < 2; ++question) quiescence.record_busy(kRed);
  CHECK_FALSE(quiescence.is_expected());
  CHECK_FALSE(quiescence.is_expected());
  CHECK_FALSE(quiescence.are_frequent());
}

TEST_CASE("the last busy stream is queried next until a quiescent moment") {
  QuiescenceStats quiescence;
  CHECK(quiescence.last_busy() == kUnowned);
  quiescence.record_busy(kRed);
  CHECK(quiescence.last_busy() == kRed);
  quiescence.record_idle();
  CHECK(quiescence.last_busy() == kUnowned);
  quiescence.record_busy(kRed);
  quiescence.forget_last_busy();
  CHECK(quiescence.last_busy() == kUnowned);
}

}  // namespace quiescence_stats_test
