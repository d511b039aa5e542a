// SPDX-License-Identifier: Apache-2.0
#include "memory/order/free_marks.hpp"

#include <cstdint>
#include <map>

#include <doctest/doctest.h>

#include "memory/pending_blocks.hpp"

namespace free_marks_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a mark covers the frees up to its serial, however many marks follow") {
  FreeMarks marks;
  std::map<std::uint64_t, SharedEvent> recorded;
  CHECK(marks.empty());
  for (std::uint64_t serial = 1; serial <= 100; ++serial) {
    recorded[serial] = fake_event();
    marks.add(recorded[serial], serial);
    CHECK(marks.covered() == serial);
    // An earlier event would show frees as done whose work is pending.
    CHECK(marks.newest().event == recorded.at(serial));
    CHECK(marks.oldest().event == recorded.at(marks.oldest().serial));
  }
  CHECK(marks.completed() == 0);
  while (!marks.empty()) {
    const FreeMarks::Mark oldest = marks.oldest();
    CHECK(oldest.event == recorded.at(oldest.serial));
    marks.complete(oldest.serial);
    CHECK(marks.completed() == oldest.serial);
    CHECK(marks.covered() == 100);
  }
  CHECK(marks.completed() == 100);
}

TEST_CASE("a completed mark completes the marks before it, and an old one changes nothing") {
  FreeMarks marks;
  for (std::uint64_t serial : {3, 5, 8}) marks.add(fake_event(), serial);
  marks.complete(6);  // known by other means
  CHECK(marks.completed() == 6);
  CHECK(marks.oldest().serial == 8);
  marks.complete(5);
  CHECK(marks.completed() == 6);
  CHECK(marks.oldest().serial == 8);
  CHECK(marks.covered() == 8);
}

}  // namespace free_marks_test
