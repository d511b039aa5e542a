// SPDX-License-Identifier: Apache-2.0
// Random programs whose requests are served by page remap.
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include <doctest/doctest.h>

#include "memory/remap_fixture.hpp"

namespace page_remap_random_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("random programs on two streams keep every byte, and give everything back") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::random}) {
    RemapTest test(progress);
    const Stream streams[] = {test.stream(), test.stream()};
    std::mt19937 random(11);
    const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
    std::deque<Allocation> live;
    std::uint64_t failures = 0;
    for (int operation = 0; operation < 600; ++operation) {
      CAPTURE(operation);
      const Stream& stream = streams[below(4) == 0 ? 1 : 0];
      const std::size_t bytes = 1 + (below(4) == 0 ? below(24_MiB) : below(3_MiB));
      if (below(5) < 3) {
        Result<Allocation> block = test.memory.try_allocate(bytes, stream);
        if (block.ok()) {
          live.push_back(std::move(block).value());
          test.write(live.back(), stream);
        } else if (++failures > 0 && !live.empty()) {
          test.free(live.front());
          live.pop_front();
        }
      } else if (!live.empty()) {
        std::swap(live[below(live.size())], live.back());
        test.free(live.back());
        live.pop_back();
      }
      if (operation % 20 == 0) REQUIRE(test.all_hold());
    }
    CHECK(test.counters().page_remaps > 100);
    CHECK(failures > 10);
    for (Allocation& block : live) test.free(block);
    test.memory.trim();
    CHECK(test.simulator.live().mappings == 0);
    CHECK(test.simulator.device_bytes_used(0) == 0);
  }
}

}  // namespace page_remap_random_test
