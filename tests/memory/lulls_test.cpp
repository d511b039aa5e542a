// SPDX-License-Identifier: Apache-2.0
// What is known of a program's lulls.
#include "memory/order/lulls.hpp"

#include <doctest/doctest.h>

namespace lulls_test {

using namespace berth;

namespace {

constexpr OwnerId kRed = 1;

}  // namespace

TEST_CASE("each request asks until one is told that a stream is busy, and again after a lull") {
  Lulls lulls;
  for (int request = 0; request < 4; ++request) CHECK(lulls.is_expected());
  lulls.missed(kRed);
  CHECK_FALSE(lulls.is_expected());
  CHECK(lulls.is_expected());
  for (int question = 0; question < 10; ++question) lulls.missed(kRed);
  int asked = 0;
  for (int request = 0; request < 30; ++request) asked += lulls.is_expected() ? 1 : 0;
  CHECK(asked == 10);
  lulls.found();
  CHECK(lulls.is_expected());
  CHECK(lulls.is_expected());
}

TEST_CASE("a program that has a lull at every fourth look has them, one that has fewer does not") {
  Lulls lulls;
  CHECK(lulls.are_frequent());  // nothing speaks against it
  lulls.found();
  for (int question = 0; question < 3; ++question) lulls.missed(kRed);
  CHECK(lulls.are_frequent());
  lulls.found();
  for (int question = 0; question < 4; ++question) lulls.missed(kRed);
  CHECK_FALSE(lulls.are_frequent());
  CHECK(lulls.are_frequent());  // since the last time only
}

TEST_CASE("a request that did not ask counts as one that was told so") {
  Lulls lulls;
  lulls.found();
  for (int question = 0; question < 2; ++question) lulls.missed(kRed);
  CHECK_FALSE(lulls.is_expected());
  CHECK_FALSE(lulls.is_expected());
  CHECK_FALSE(lulls.are_frequent());
}

TEST_CASE("the stream that was busy last is asked next, until there is a lull") {
  Lulls lulls;
  CHECK(lulls.last_busy() == kUnowned);
  lulls.missed(kRed);
  CHECK(lulls.last_busy() == kRed);
  lulls.found();
  CHECK(lulls.last_busy() == kUnowned);
  lulls.missed(kRed);
  lulls.forget_last_busy();
  CHECK(lulls.last_busy() == kUnowned);
}

}  // namespace lulls_test
