// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/extent_allocator.hpp"

#include <doctest/doctest.h>

namespace extent_allocator_test {

using berth::sim::Extent;
using berth::sim::ExtentAllocator;

TEST_CASE("the best fit is taken, the lowest among equals") {
  ExtentAllocator extents(0, 100);
  REQUIRE(extents.allocate_at(10, 5));
  REQUIRE(extents.allocate_at(20, 50));  // free: [0, 10), [15, 20), [70, 100)
  CHECK(extents.allocate(5, 1) == 15);
  CHECK(extents.allocate(5, 1) == 0);
  CHECK(extents.allocate(40, 1) == std::nullopt);
}

TEST_CASE("an aligned allocation leaves what it skips free") {
  ExtentAllocator extents(3, 97);
  CHECK(extents.allocate(90, 64) == std::nullopt);
  CHECK(extents.allocate(16, 16) == 16);
  CHECK(extents.free_bytes() == 81);
  CHECK(extents.allocate_at(3, 13));
  CHECK(extents.allocate(80, 64) == std::nullopt);
}

TEST_CASE("released neighbors join into one extent") {
  ExtentAllocator extents(0, 30);
  REQUIRE(extents.allocate(30, 1) == 0);
  extents.release(0, 10);
  extents.release(20, 10);
  CHECK(extents.allocate(20, 1) == std::nullopt);
  extents.release(10, 10);
  CHECK(extents.allocate(30, 1) == 0);
}

TEST_CASE("scattered pieces are taken only where there is no fit") {
  ExtentAllocator extents(0, 30);
  REQUIRE(extents.allocate_at(10, 5));  // free: [0, 10), [15, 30)
  CHECK(extents.allocate_scattered(12).size() == 1);
  const auto pieces = extents.allocate_scattered(13);
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].start == 0);
  CHECK(pieces[0].bytes == 10);
  CHECK(pieces[1].start == 27);
  CHECK(extents.free_bytes() == 0);
  CHECK(extents.allocate_scattered(1).empty());
}

}  // namespace extent_allocator_test
