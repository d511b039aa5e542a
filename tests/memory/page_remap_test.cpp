// SPDX-License-Identifier: Apache-2.0
// What callers see of page remap: requests that no hole fits. The simulated driver looks for races
// on every physical byte, whatever its address.
#include <algorithm>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "memory/remap_fixture.hpp"
#include "support/errors.hpp"

namespace page_remap_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = RemapTest::kGranule;
constexpr std::size_t kDeviceGranules = RemapTest::kDeviceGranules;
constexpr std::size_t kDeviceBytes = RemapTest::kDeviceBytes;

}  // namespace

TEST_CASE("a request that no hole fits is made of holes, and shares no byte with any other block") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    RemapTest test(progress);
    const Stream stream = test.stream();
    test.make_holes(kDeviceGranules, stream);
    const std::uint64_t created = test.granules_created();
    Allocation large = test.allocate(kDeviceBytes / 2, stream);
    CHECK(test.granules_created() == created);
    CHECK(test.reserved() == kDeviceBytes);
    CHECK(test.simulator.device_bytes_used(0) == kDeviceBytes);
    CHECK(test.counters().page_remaps == kDeviceGranules / 2);
    CHECK(test.counters().bytes_active.current == kDeviceBytes);
    for (const Allocation& wall : test.walls)
      CHECK_FALSE(overlap(large.data(), large.bytes(), wall.data(), wall.bytes()));
    CHECK(test.all_hold());
    for (Allocation& wall : test.walls) test.write(wall, stream);  // in the other order, too
    test.free(large);
    large = test.allocate(kDeviceBytes / 2 - 4096, stream);
    CHECK(test.all_hold());
  }
}

TEST_CASE("partial granules are joined, too, and no byte of them is shared") {
  RemapTest test;
  const Stream stream = test.stream();
  std::vector<Allocation> row;
  // Every third has a whole granule, and half of another in front or behind, in turns.
  for (std::size_t index = 0; index < 20; ++index) row.push_back(test.allocate(3_MiB, stream));
  for (std::size_t index = 1; index < 18; index += 3) test.free(row[index]);
  const std::uint64_t created = test.granules_created();
  const Allocation large = test.allocate(13_MiB, stream);
  const Allocation small = test.allocate(2_MiB - 4096, stream);
  CHECK(test.granules_created() == created);
  CHECK(test.all_hold());
}

TEST_CASE("new memory supplies only what the holes lack") {
  RemapTest test;
  const Stream stream = test.stream();
  test.make_holes(16, stream);
  const Allocation large = test.allocate(10 * kGranule, stream);
  CHECK(test.reserved() == 18 * kGranule);
  CHECK(test.counters().allocations_grown == 17);
  CHECK(test.all_hold());
}

TEST_CASE("a block of holes is freed and allocated again without any driver call") {
  RemapTest test;
  const Stream stream = test.stream();
  test.make_holes(16, stream);
  Allocation large = test.memory.allocate(8 * kGranule, stream);
  const void* const data = large.data();
  const std::uint64_t calls = driver_calls(*test.runtime);
  SUBCASE("at once") {
    for (int round = 0; round < 3; ++round) {
      large.reset();
      large = test.memory.allocate(8 * kGranule - 100, stream);
    }
  }
  SUBCASE("after its granules were other blocks") {
    for (int round = 0; round < 3; ++round) {
      large.reset();
      {
        std::vector<Allocation> others;
        for (int index = 0; index < 8; ++index)
          others.push_back(test.memory.allocate(kGranule, stream));
      }
      large = test.memory.allocate(8 * kGranule, stream);
    }
    CHECK(test.counters().page_remaps == 8);
  }
  CHECK(large.data() == data);
  CHECK(driver_calls(*test.runtime) == calls);
  test.write(large, stream);
  CHECK(test.all_hold());
}

TEST_CASE("trimming gives back the memory behind unused mappings, and the mappings") {
  RemapTest test;
  const Stream stream = test.stream();
  test.make_holes(16, stream);
  Allocation large = test.allocate(8 * kGranule, stream);
  CHECK(test.memory.trim() == 0);  // all of it is in use
  CHECK(test.simulator.live().mappings == 24);
  test.free(large);
  CHECK(test.memory.trim() == 8 * kGranule);
  CHECK(test.simulator.live().mappings == 8);
  CHECK(test.reserved() == 8 * kGranule);
  CHECK(test.all_hold());
  for (Allocation& wall : test.walls) test.free(wall);
  CHECK(test.memory.trim() == 8 * kGranule);
  CHECK(test.simulator.live().mappings == 0);
  CHECK(test.simulator.device_bytes_used(0) == 0);
  const Allocation again = test.allocate(kDeviceBytes, stream);
  CHECK(test.all_hold());
}

TEST_CASE("a snapshot shows the pieces of a block of holes at their homes") {
  RemapTest test;
  const Stream stream = test.stream();
  test.make_holes(16, stream);
  constexpr std::size_t bytes = 8 * kGranule - 100;
  Allocation large = test.allocate(bytes, stream);
  std::vector<BlockInfo> blocks = blocks_at(test.memory.snapshot(), large.data(), bytes);
  REQUIRE(blocks.size() == 8);
  std::size_t requested = 0;
  std::uintptr_t expected = address_of(large.data());
  for (const BlockInfo& block : blocks) {
    CHECK(block.data == expected);
    CHECK(block.address != block.data);
    CHECK(block.continues == (&block != &blocks.front()));
    CHECK(block.state == BlockState::allocated);
    CHECK(block.stream == stream.ref().native());
    requested += block.bytes_requested;
    expected += block.bytes;
  }
  CHECK(requested == bytes);
  CHECK(test.counters().bytes_requested.current == 8 * kGranule + bytes);
  CHECK(test.counters().blocks_allocated.current == 9);
  for (const Allocation& wall : test.walls) {
    const std::vector<BlockInfo> at_home = blocks_at(test.memory.snapshot(), wall.data(), 1);
    REQUIRE(at_home.size() == 1);
    CHECK(at_home.front().address == address_of(wall.data()));
    CHECK_FALSE(at_home.front().continues);
  }
  test.free(large);
  check_whole(test.memory);
}

TEST_CASE("addresses around a block of holes are refused as those around any other block are") {
  RemapTest test;
  const Stream stream = test.stream();
  test.make_holes(16, stream);
  Allocation large = test.allocate(8 * kGranule, stream);
  auto* const data = static_cast<char*>(large.data());
  CHECK(test.memory.owns(data));
  CHECK(test.memory.owns(data + large.bytes() - 1));
  const auto refusal = [&](void* wrong) {
    return message_of<InvalidArgument>([&] {
      test.memory.deallocate(wrong);
      return 0;
    });
  };
  CHECK(contains(refusal(data + 512), "512 B into the live block"));
  CHECK(contains(refusal(data + kGranule), "into the live block"));
  const std::vector<BlockInfo> blocks = blocks_at(test.memory.snapshot(), data, large.bytes());
  for (const BlockInfo& block : blocks)
    CHECK(contains(refusal(reinterpret_cast<void*>(block.address)), "at another address"));
  test.free(large);
  CHECK(contains(refusal(data), "cannot free"));
  CHECK_THROWS_AS(test.memory.record_stream(data, stream), InvalidArgument);
  CHECK(test.all_hold());
}

TEST_CASE("stitching works at the byte limit") {
  RemapTest test;
  const Stream stream = test.stream();
  test.make_holes(16, stream);
  test.memory.set_limits({.bytes_reserved_max = 16 * kGranule});
  const Allocation large = test.allocate(8 * kGranule, stream);
  CHECK(test.counters().limit_rejections == 0);
  CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(kGranule, stream)), OutOfMemory);
  CHECK(test.all_hold());
}

TEST_CASE("patterns that do not repeat do not accumulate mappings") {
  RemapTest test(sim::Progress::eager);
  const Stream stream = test.stream();
  std::mt19937 random(5);
  std::vector<Allocation> row(kDeviceGranules);
  for (Allocation& block : row) block = test.memory.allocate(kGranule, stream);
  std::size_t mappings_most = 0;
  for (int round = 0; round < 200; ++round) {
    std::shuffle(row.begin(), row.end(), random);
    for (std::size_t index = 0; index < kDeviceGranules / 2; ++index) row[index].reset();
    test.memory.allocate(kDeviceBytes / 2, stream).reset();
    for (std::size_t index = 0; index < kDeviceGranules / 2; ++index)
      row[index] = test.memory.allocate(kGranule, stream);
    mappings_most = std::max(mappings_most, test.simulator.live().mappings);
  }
  CHECK(test.counters().page_remaps > 1600);
  CHECK(mappings_most > 256);
  // Of windows 16 for each granule, the granules at home, and the window that was wanted last.
  CHECK(mappings_most <= 16 * kDeviceGranules + kDeviceGranules + kDeviceGranules / 2);
  CHECK(test.counters().segments_released == 0);
}

}  // namespace page_remap_test
