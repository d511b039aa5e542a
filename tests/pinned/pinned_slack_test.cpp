// SPDX-License-Identifier: Apache-2.0
// How much more pinned memory is reserved than requested.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "model/random.hpp"
#include "pinned/pinned_fixture.hpp"

namespace pinned_slack_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config large_host() {
  sim::Config config;
  config.host_memory = 4096_GiB;
  return config;
}

/// The driver's pages, which the simulator does not touch.
PinnedAllocatorOptions untouched() {
  return {.prefault_threads = 0};
}

/// From 4 KiB to 1 GiB, each power of two as likely as any other.
std::size_t log_uniform(Random& random) {
  const double exponent = 12 + 18 * static_cast<double>(random.below(1'000'000)) / 1e6;
  return static_cast<std::size_t>(std::exp2(exponent));
}

/// The rule of PyTorch's pinned allocator: the next power of two.
std::size_t power_of_two(std::size_t bytes) {
  return std::bit_ceil(bytes);
}

/// What a cache by that rule has pinned in the end, which gives nothing back and splits nothing.
class PowersOfTwo {
 public:
  void allocate(std::size_t bytes) {
    std::size_t& free = free_[power_of_two(bytes)];
    if (free > 0) {
      --free;
    } else {
      reserved_ += power_of_two(bytes);
    }
  }
  void deallocate(std::size_t bytes) { ++free_[power_of_two(bytes)]; }
  [[nodiscard]] std::size_t reserved() const { return reserved_; }

 private:
  std::map<std::size_t, std::size_t> free_;
  std::size_t reserved_ = 0;
};

double over(std::size_t more, std::size_t bytes) {
  return static_cast<double>(more) / static_cast<double>(bytes) - 1;
}

}  // namespace

TEST_CASE("a single block of 10 KiB or more takes less than 5 % more than requested") {
  PinnedTest test(large_host(), untouched());
  for (std::size_t power = 16_KiB; power <= 1_GiB; power *= 2) {
    for (const std::size_t bytes : {power - 1, power, power + 1, power + power / 2 + 1}) {
      CAPTURE(bytes);
      test.memory.trim();
      const Allocation block = test.memory.allocate(bytes);
      const MemoryCounters now = test.counters();
      CHECK(over(now.bytes_active.current, bytes) < 0.05);
      // Of a segment of its own: whole pages.
      if (bytes >= 8_MiB) CHECK(over(now.bytes_reserved.current, bytes) < 0.001);
    }
  }
  const Allocation least = test.memory.allocate(10_KiB + 1);
  CHECK(over(test.counters().bytes_active.current, 10_KiB + 1) < 0.05);
}

TEST_CASE("blocks of all sizes take at most 5 % more than requested, and powers of two 30 %") {
  PinnedTest test(large_host(), untouched());
  Random random(7);
  std::vector<Allocation> blocks;
  std::size_t by_powers = 0;
  for (int index = 0; index < 3000; ++index) {
    std::size_t bytes = log_uniform(random);
    if (index % 3 == 0) bytes = std::bit_floor(bytes) + 1;
    blocks.push_back(test.memory.allocate(bytes));
    by_powers += power_of_two(bytes);
  }
  const MemoryCounters now = test.counters();
  const double active = over(now.bytes_active.current, now.bytes_requested.current);
  const double reserved = over(now.bytes_reserved.current, now.bytes_requested.current);
  const double powers = over(by_powers, now.bytes_requested.current);
  CHECK(active < 0.001);
  CHECK(reserved < 0.05);
  CHECK(powers > 0.3);
  check_whole(test.memory);
}

TEST_CASE("2^k + 1 bytes are not rounded up to the next power of two") {
  PinnedTest test(large_host(), untouched());
  std::vector<Allocation> blocks;
  std::size_t by_powers = 0;
  for (std::size_t bytes = 16_MiB; bytes <= 8_GiB; bytes *= 2) {
    blocks.push_back(test.memory.allocate(bytes + 1));
    by_powers += power_of_two(bytes + 1);
  }
  const MemoryCounters now = test.counters();
  CHECK(over(now.bytes_reserved.current, now.bytes_requested.current) < 0.001);
  CHECK(over(by_powers, now.bytes_requested.current) > 0.99);
}

TEST_CASE("a program of mixed sizes reserves at most slack_max beyond its peak") {
  std::optional<double> slack_max;
  SUBCASE("without slack_max it reserves less than with powers of two") {}
  SUBCASE("with slack_max it returns segments") {
    slack_max = 0.05;
  }
  CAPTURE(slack_max.has_value());
  Random random(11);
  PinnedAllocatorOptions options = untouched();
  options.slack_max = slack_max;
  PinnedTest test(large_host(), options);
  std::vector<Allocation> blocks;
  PowersOfTwo powers;
  constexpr std::size_t kLive = 32_GiB;
  std::size_t live = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::size_t bytes = log_uniform(random);
    while (live + bytes > kLive) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      live -= blocks.back().bytes();
      powers.deallocate(blocks.back().bytes());
      blocks.pop_back();
    }
    blocks.push_back(test.memory.allocate(bytes));
    powers.allocate(bytes);
    live += bytes;
  }
  const MemoryCounters now = test.counters();
  const double waste = over(now.bytes_reserved.peak, now.bytes_requested.peak);
  const double by_powers = over(powers.reserved(), now.bytes_requested.peak);
  CAPTURE(by_powers);
  CHECK(by_powers > 0.5);
  CHECK(waste < (slack_max ? 0.05 : by_powers));
  check_whole(test.memory);
}

}  // namespace pinned_slack_test
