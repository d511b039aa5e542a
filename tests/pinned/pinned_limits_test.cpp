// SPDX-License-Identifier: Apache-2.0
// How much pinned memory is kept: at the limit of what is reserved, and at that of what is cached.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "pinned/pinned_fixture.hpp"
#include "pinned/staging_block.hpp"
#include "support/tapped_device.hpp"

namespace pinned_limits_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Where segments are.
std::set<std::uintptr_t> segments(const PinnedAllocator& memory) {
  std::set<std::uintptr_t> addresses;
  for (const SegmentInfo& segment : memory.snapshot().segments) addresses.insert(segment.address);
  return addresses;
}

}  // namespace

TEST_CASE(
    "at the limit the least recently used segments are returned, and only as many as needed") {
  PinnedTest test({}, {.bytes_reserved_max = 100_MiB});
  std::vector<void*> blocks;
  for (const std::size_t bytes : {20_MiB, 21_MiB, 22_MiB, 23_MiB})
    blocks.push_back(test.memory.allocate_raw(bytes));
  REQUIRE(test.reserved() == 86_MiB);
  for (const std::size_t index : {2U, 0U, 3U, 1U}) {
    test.memory.deallocate(blocks[index]);
    test.memory.trim(SIZE_MAX);  // back to the heap, in this order
  }
  const Allocation large = test.memory.allocate(30_MiB);  // lacks 16 MiB
  std::set<std::uintptr_t> left = segments(test.memory);
  CHECK_FALSE(left.contains(address_of(blocks[2])));
  CHECK(left.size() == 4);
  CHECK(test.reserved() == 94_MiB);
  const Allocation larger = test.memory.allocate(40_MiB);  // lacks 34 MiB
  left = segments(test.memory);
  CHECK_FALSE(left.contains(address_of(blocks[0])));
  CHECK_FALSE(left.contains(address_of(blocks[3])));
  CHECK(left.contains(address_of(blocks[1])));
  CHECK(test.counters().segments_released == 3);
  CHECK(test.counters().bytes_reserved.peak <= 100_MiB);
  check_whole(test.memory);
}

TEST_CASE("a small request gets the memory that it needs if no shared segment can be pinned") {
  for (const unsigned prefault_threads : {0U, 4U}) {
    CAPTURE(prefault_threads);
    sim::Config machine;
    machine.host_memory = 64_MiB;
    PinnedTest test(machine, {.prefault_threads = prefault_threads});
    const Allocation large = test.memory.allocate(54_MiB);
    const Allocation small = test.memory.allocate(100);
    CHECK(test.reserved() == 54_MiB + 4_KiB);
    const Allocation rest = test.memory.allocate(10_MiB - 4_KiB);
    const std::string refusal =
        message_of<OutOfMemory>([&] { static_cast<void>(test.memory.allocate(4_KiB)); });
    CHECK(contains(refusal, "; the driver refused to give more"));
    check_whole(test.memory);
  }
}

TEST_CASE("a free beyond the cache limit returns the least recently used memory") {
  PinnedTest test({}, {.bytes_cached_max = 64_MiB});
  std::vector<void*> blocks;
  for (int index = 0; index < 6; ++index) {
    blocks.push_back(test.memory.allocate_raw(20_MiB + index * 4_KiB));
  }
  for (void* const block : blocks) {
    test.memory.deallocate(block);
    test.memory.finish_background_work();
    CHECK(test.cached() <= 64_MiB);
    check_whole(test.memory);
  }
  CHECK(segments(test.memory) ==
        std::set{address_of(blocks[3]), address_of(blocks[4]), address_of(blocks[5])});
  CHECK(test.registrations() == 3);
}

TEST_CASE("small frees count towards the cache limit, too") {
  PinnedTest test({}, {.bytes_cached_max = 4_MiB, .segment_bytes = 1_MiB});
  std::vector<Allocation> blocks;
  for (int index = 0; index < 2000; ++index) blocks.push_back(test.memory.allocate(10'000));
  REQUIRE(test.reserved() >= 19_MiB);
  while (!blocks.empty()) {
    blocks.pop_back();
    test.memory.finish_background_work();
    // A thread's frees are looked at a sixteenth of the limit at a time.
    CHECK(test.cached() <= 4_MiB + 4_MiB / 16 + 1_MiB);
  }
  CHECK(test.reserved() <= 4_MiB + 4_MiB / 16);
  check_whole(test.memory);
}

TEST_CASE("a cache limit of 0 keeps no returnable memory") {
  PinnedTest test({}, {.bytes_cached_max = 0, .segment_bytes = 1_MiB});
  for (const std::size_t bytes : {std::size_t{1}, 700_KiB, 5_MiB}) {
    { const Allocation block = test.memory.allocate(bytes); }
    test.memory.finish_background_work();
    CHECK(test.reserved() == 0);
    CHECK(test.registrations() == 0);
  }
}

TEST_CASE("segments in use are kept, however much of them is cached") {
  PinnedTest test({}, {.bytes_cached_max = 1_MiB, .segment_bytes = 16_MiB});
  const Allocation keeps = test.memory.allocate(1000);
  std::vector<Allocation> blocks;
  for (int index = 0; index < 100; ++index) blocks.push_back(test.memory.allocate(100'000));
  blocks.clear();
  test.memory.finish_background_work();
  CHECK(test.reserved() == 16_MiB);
  const std::uint64_t calls = driver_calls(*test.runtime);
  for (int round = 0; round < 100; ++round) const Allocation again = test.memory.allocate(100'000);
  test.memory.finish_background_work();
  CHECK(driver_calls(*test.runtime) == calls);
  check_whole(test.memory);
}

TEST_CASE("the return of cached memory waits for no work") {
  PinnedTest test(manual_progress(), {.bytes_cached_max = 30_MiB});
  const Stream stream = test.stream();
  const Allocation live = test.memory.allocate(40_MiB);
  void* const used = test.memory.allocate_raw(20_MiB);
  test.log.submit(stream, "work");
  test.memory.record_stream(used, stream);
  test.memory.deallocate(used);
  test.memory.finish_background_work();
  CHECK(test.counters().blocks_pending.current == 1);
  CHECK_FALSE(test.log.is_done("work"));
  CHECK(driver_calls(*test.runtime, "cuEventSynchronize") == 0);
  CHECK(driver_calls(*test.runtime, "cuStreamSynchronize") == 0);
  check_whole(test.memory);
}

TEST_CASE("a failure to return cached memory is reported, and the free succeeds") {
  sim::Config config;
  config.faults = sim::FaultPlan::parse("cuMemHostUnregister@1=unknown");
  PinnedTest test(config, {.bytes_cached_max = 0});
  test.errors_expected = true;
  test.memory.deallocate(test.memory.allocate_raw(20_MiB));
  test.memory.finish_background_work();
  CHECK(test.reports.mention("cuMemHostUnregister"));
  CHECK(test.counters().blocks_allocated.current == 0);
  CHECK(test.memory.trim() == 20_MiB);
  check_whole(test.memory);
}

TEST_CASE("contradictory limits are refused by name") {
  const sim::Simulator simulator{sim::Config{}};
  const auto refusal = [](PinnedAllocatorOptions pinned) {
    RuntimeOptions options = pinned_options(pinned);
    options.driver = "sim";
    return message_of<InvalidArgument>([&] { return Runtime(options).pinned_memory().trim(); });
  };
  CHECK(contains(refusal({.bytes_cached_max = 20_MiB, .low_water_bytes = 16_MiB}),
                 "bytes_cached_max"));
  CHECK(
      contains(refusal({.bytes_cached_max = 1, .low_water_bytes = SIZE_MAX}), "bytes_cached_max"));
  CHECK(contains(refusal({.prefault_threads = 129}), "prefault_threads"));
  CHECK(contains(refusal({.slack_max = -0.01}), "slack_max"));
  CHECK(contains(refusal({.slack_max = std::nan("")}), "slack_max"));
  CHECK(contains(refusal({.slack_max = 1.01}), "slack_max"));
}

TEST_CASE("a limit below a segment still serves a request that fits") {
  {
    PinnedTest test({}, {.bytes_reserved_max = 1_MiB});
    const Allocation block = test.memory.allocate(100);
    CHECK(test.reserved() == 4_KiB);
  }
  PinnedTest test({}, {.bytes_reserved_max = 20_MiB});
  const Allocation most = test.memory.allocate(14_MiB);
  const Allocation shared = test.memory.allocate(100);
  CHECK(test.reserved() == 14_MiB + 4_KiB);
  const Allocation rest = test.memory.allocate(5_MiB);
  CHECK(test.reserved() <= 20_MiB);
}

TEST_CASE("an invalid PinnedKind is refused") {
  PinnedTest test;
  CHECK(contains(message_of<InvalidArgument>([&] {
                   return test.memory.allocate(64, {.kind = static_cast<PinnedKind>(9)}).data();
                 }),
                 "PinnedKind 9"));
}

// PyTorch's pinned allocator looks at its events in order, so that one copy that is stuck holds
// back all later blocks, and memory grows without end.
TEST_CASE("one stuck copy holds back its own blocks, while others come back and nothing grows") {
  PinnedTest test(manual_progress(), {.segment_bytes = 1_MiB});
  const Stream stuck = test.stream();
  const Stream quick = test.stream();
  test.log.submit(stuck, "never");
  constexpr int kStuckBlocks = 64;
  for (int index = 0; index < kStuckBlocks; ++index) {
    const Allocation block = test.memory.allocate(256_KiB);
    block.record_stream(stuck);
  }
  const std::size_t held = std::size_t{kStuckBlocks} * 256_KiB;
  CHECK(test.counters().bytes_active.current == held);
  std::size_t reserved_early = 0;
  for (int round = 0; round < 2000; ++round) {
    {
      const Allocation block = test.memory.allocate(256_KiB);
      block.record_use(quick);
      const Allocation both = test.memory.allocate(64_KiB);
      both.record_stream(quick);
      if (round == 7) both.record_stream(stuck);
    }
    quick.ref().sync();
    if (round == 20) reserved_early = test.reserved();
  }
  CHECK_FALSE(test.log.is_done("never"));
  CHECK(test.reserved() == reserved_early);
  CHECK(test.reserved() <= held + 3_MiB);
  CHECK(test.counters().blocks_pending.current <= kStuckBlocks + 8);
  check_whole(test.memory);
}

// A thread that frees may be the one to open a gate, so it must not wait in the driver.
TEST_CASE("a free makes no driver call, and the background thread limits what is cached") {
  TappedDevice test;
  PinnedAllocator memory(test.registry, {.bytes_cached_max = 64_MiB});
  std::vector<StagingBlock> staging;
  std::vector<Allocation> blocks;
  const auto bytes = [](int index) { return 20_MiB + index * 4_KiB; };
  SUBCASE("by a copy") {
    for (int index = 0; index < 6; ++index)
      staging.push_back(allocate_staging(memory, bytes(index), {}));
  }
  SUBCASE("by the program") {
    for (int index = 0; index < 6; ++index) blocks.push_back(memory.allocate(bytes(index)));
  }
  const std::thread::id own = std::this_thread::get_id();
  std::atomic<std::thread::id> by{};
  std::latch may_return(1);
  test.tap.before(DriverCall::mem_host_unregister, [&] {
    by = std::this_thread::get_id();
    if (by.load() != own) may_return.wait();
  });
  staging.clear();
  blocks.clear();
  const Allocation again = memory.allocate(bytes(5));  // meanwhile
  may_return.count_down();
  memory.finish_background_work();
  CHECK(by.load() != std::thread::id());
  CHECK(by.load() != own);
  CHECK(memory.counters().bytes_reserved.current <= 64_MiB + again.bytes());
  check_whole(memory);
}

}  // namespace pinned_limits_test
