// SPDX-License-Identifier: Apache-2.0
// The time of a batch compared with as many single copies, in virtual time. The workload is that of
// the benchmark `copies`.
#include <doctest/doctest.h>

#include "workloads/scattered_copies.hpp"

namespace batch_speed_test {

using namespace berth;
using namespace berth::bench;

TEST_CASE(
    "a batch of 4,096 scattered ranges of 32 KiB takes at most half as long as single copies") {
  for (const CopyDirection direction : {CopyDirection::to_device, CopyDirection::to_host}) {
    CAPTURE(int(direction));
    ScatteredCopies copies(direction, 32_KiB, 4096);
    const std::uint64_t batch_ns = copies.as_batch();
    const std::uint64_t single_ns = copies.one_by_one();
    MESSAGE("a batch: ", batch_ns, " ns, one by one: ", single_ns, " ns");
    CHECK(2 * batch_ns <= single_ns);
  }
}

}  // namespace batch_speed_test
