// SPDX-License-Identifier: Apache-2.0
// The order of memory whose stitching by page remap has failed.
#include <doctest/doctest.h>

#include "memory/holes_fixture.hpp"

namespace page_remap_failed_order_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("holes whose stitching failed stay with their stream, in its order") {
  Holes test;
  const Stream other = test.stream();
  test.log.submit(test.own, "earlier");
  test.tap.refuse(DriverCall::mem_set_access, CUDA_ERROR_UNKNOWN);
  CHECK_THROWS_AS(test.allocator->allocate(8 * Holes::kGranuleBytes, test.own), DriverError);
  test.allocate(Holes::kGranuleBytes, other);
  CHECK(test.counters().bytes_reserved.current == 17 * Holes::kGranuleBytes);
  CHECK_FALSE(test.log.is_done("earlier"));
  test.allocate(8 * Holes::kGranuleBytes, test.own);
  CHECK(test.counters().page_remaps == 8);
}

}  // namespace page_remap_failed_order_test
