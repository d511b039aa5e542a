// SPDX-License-Identifier: Apache-2.0
// The rate of staged copies compared with those of link and memory, and the latency of small copies
// behind them. The workloads are those of the benchmark `copies`.
#include <algorithm>

#include <doctest/doctest.h>

#include "workloads/virtual_copies.hpp"

namespace staged_speed_test {

using namespace berth;
using namespace berth::bench;

TEST_CASE("a staged copy comes within 5 % of the bound set by link and threads") {
  for (const Direction direction : {Direction::to_device, Direction::to_host}) {
    for (const std::size_t threads : {1, 2, 4, 6}) {
      CAPTURE(int(direction));
      CAPTURE(threads);
      VirtualCopies copies(threads);
      const double allowed =
          std::min(link_rate(direction), static_cast<double>(threads) * thread_rate());
      const std::size_t bytes = threads >= 4 ? 1_GiB : 256_MiB;  // 4 reach the link's rate
      const double reached = rate(bytes, copies.staged(direction, bytes));
      MESSAGE(threads, " threads: ", reached, " GB/s of ", allowed);
      CHECK(reached >= 0.95 * allowed);
    }
  }
}

TEST_CASE("64 KiB behind a gigabyte of pageable memory arrive within 250 us, every time") {
  for (const Direction direction : {Direction::to_device, Direction::to_host}) {
    CAPTURE(int(direction));
    VirtualCopies copies(4);
    const std::uint64_t longest = copies.longest_behind_staged(direction, 1_GiB, 64_KiB, 100);
    MESSAGE("longest: ", longest, " ns");
    CHECK(longest <= 250'000);
  }
}

}  // namespace staged_speed_test
