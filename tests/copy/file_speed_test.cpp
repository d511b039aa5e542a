// SPDX-License-Identifier: Apache-2.0
// The rate of loads and saves compared with those of disk and link, in virtual time.
#include <algorithm>

#include <doctest/doctest.h>

#include "berth/copier.hpp"

#include "workloads/virtual_copies.hpp"

namespace file_speed_test {

using namespace berth;
using namespace berth::bench;

TEST_CASE("a load, and a save, run within 5 % of the slower of disk and link") {
  constexpr std::size_t kThreads = CopierOptions{}.file_workers;
  constexpr std::uint64_t kLatencyNs = 60'000;
  for (const Direction direction : {Direction::to_device, Direction::to_host}) {
    for (const double disk : {2.0, 14.0, 100.0}) {
      CAPTURE(int(direction));
      CAPTURE(disk);
      VirtualCopies copies(kThreads, by_a_disk(disk, kLatencyNs));
      const double allowed = std::min(link_rate(direction), disk);
      const double reached = rate(1_GiB, copies.staged(direction, 1_GiB));
      MESSAGE("disk of ", disk, " GB/s: ", reached, " GB/s of ", allowed);
      CHECK(reached >= 0.95 * allowed);
    }
  }
}

}  // namespace file_speed_test
