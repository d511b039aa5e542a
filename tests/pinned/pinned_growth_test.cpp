// SPDX-License-Identifier: Apache-2.0
// How pinned memory grows, by callers and in the background, and what happens if it cannot.
#include <algorithm>
#include <cstddef>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "pinned/pinned_fixture.hpp"
#include "support/child_process.hpp"
#include "support/meanwhile.hpp"
#include "support/sanitizers.hpp"
#include "support/tapped_device.hpp"

namespace pinned_growth_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config with_faults(const std::string& plan) {
  sim::Config config;
  config.faults = sim::FaultPlan::parse(plan);
  return config;
}

constexpr PinnedAllocatorOptions kAhead = {.segment_bytes = 1_MiB, .low_water_bytes = 4_MiB};

}  // namespace

TEST_CASE("without a low water mark every segment is obtained by the call that needs it") {
  PinnedTest test({}, {.segment_bytes = 1_MiB});
  std::vector<Allocation> blocks;
  for (int index = 0; index < 40; ++index) blocks.push_back(test.memory.allocate(100'000));
  test.memory.finish_background_work();
  const PinnedGrowthCounters growth = test.memory.growth_counters();
  CHECK(growth.segments_by_callers == 4);
  CHECK(growth.segments_in_background == 0);
  CHECK(growth.segments_registered == 4);
  CHECK(test.counters().segments_mapped == 4);
}

TEST_CASE_FIXTURE(TappedDevice,
                  "a thread that waits for another thread's growth searches for memory again") {
  PinnedAllocator pinned(registry, {.segment_bytes = 1_MiB, .prefault_threads = 0});
  Allocation of_other;
  Meanwhile other([&] { of_other = pinned.allocate(100'000); });
  tap.before(DriverCall::mem_host_alloc, [&] { other.start(); });
  const Allocation own = pinned.allocate(100'000);
  other.join();
  CHECK_FALSE(other.was_done());
  CHECK(pinned.growth_counters().segments_by_callers == 1);
}

TEST_CASE("below the low water mark memory is obtained in the background") {
  PinnedTest test({}, kAhead);
  std::vector<Allocation> blocks;
  blocks.push_back(test.memory.allocate(100'000));
  test.memory.finish_background_work();
  CHECK(test.memory.growth_counters().segments_by_callers == 1);
  CHECK(test.memory.growth_counters().segments_in_background >= 1);
  CHECK(test.cached() >= 4_MiB);
  for (int index = 0; index < 400; ++index) {  // 40 MB
    blocks.push_back(test.memory.allocate(100'000));
    test.memory.finish_background_work();
    CHECK(test.cached() >= 4_MiB);
  }
  CHECK(test.memory.growth_counters().segments_by_callers == 1);
  CHECK(test.counters().allocations_grown == 1);
  CHECK(test.cached() <= 4_MiB + 1_MiB);
  CHECK(test.memory.growth_counters().failures_in_background == 0);
  check_whole(test.memory);
}

TEST_CASE("one step of background growth is the missing bytes, at most 1 GiB") {
  sim::Config config;
  config.same_host_address = false;  // the driver's pages, which nothing touches
  PinnedTest test(config, {.segment_bytes = 1_MiB, .low_water_bytes = 2_GiB + 512_MiB});
  const Allocation block = test.memory.allocate(600_KiB);
  test.memory.finish_background_work();
  std::vector<std::size_t> sizes;
  for (const SegmentInfo& segment : test.memory.snapshot().segments) sizes.push_back(segment.bytes);
  std::ranges::sort(sizes);
  REQUIRE(sizes.size() == 4);
  CHECK(sizes[0] == 600_KiB);
  CHECK(sizes[1] == 512_MiB);
  CHECK(sizes[2] == 1_GiB);
  CHECK(sizes[3] == 1_GiB);
}

TEST_CASE("background growth stops at the limit without a failure") {
  PinnedAllocatorOptions options = kAhead;
  options.bytes_reserved_max = 3_MiB;
  PinnedTest test({}, options);
  std::vector<Allocation> blocks;
  for (int index = 0; index < 20; ++index) {
    blocks.push_back(test.memory.allocate(100'000));
    test.memory.finish_background_work();
    CHECK(test.reserved() <= 3_MiB);
  }
  CHECK(test.memory.growth_counters().failures_in_background == 0);
  CHECK(test.reports.all().empty());
  CHECK(test.counters().out_of_memory == 0);
  check_whole(test.memory);
}

TEST_CASE("a failure of background growth is reported once and never thrown to callers") {
  // Of the calls of cuMemHostAlloc the first is the caller's.
  PinnedAllocatorOptions options = kAhead;
  options.prefault_threads = 0;
  PinnedTest test(with_faults("cuMemHostAlloc@2=unknown;cuMemHostAlloc@3=out_of_memory;"
                              "cuMemHostAlloc@5=unknown"),
                  options);
  std::vector<Allocation> blocks;
  const auto allocate = [&] {
    blocks.push_back(test.memory.allocate(1000));
    test.memory.finish_background_work();
    check_whole(test.memory);
  };
  allocate();  // call 2
  CHECK(test.memory.growth_counters().failures_in_background == 1);
  REQUIRE(test.reports.all().size() == 1);
  CHECK(test.reports.mention("obtained ahead"));
  allocate();  // call 3
  CHECK(test.memory.growth_counters().failures_in_background == 2);
  CHECK(test.reports.all().size() == 1);
  allocate();  // not tried: failures make it patient
  CHECK(test.memory.growth_counters().failures_in_background == 2);
  allocate();  // call 4
  CHECK(test.memory.growth_counters().segments_in_background == 1);
  CHECK(test.reports.all().size() == 1);
  test.memory.trim();
  blocks.push_back(test.memory.allocate(1000));
  test.memory.finish_background_work();  // call 5
  CHECK(test.memory.growth_counters().failures_in_background == 3);
  CHECK(test.reports.all().size() == 2);
}

TEST_CASE("the allocator's destructor waits for the background thread") {
  for (int round = 0; round < 50; ++round) {
    PinnedTest test({}, kAhead);
    const Allocation block = test.memory.allocate(1000);
  }
}

TEST_CASE("threads allocate during background growth, and the counters stay consistent") {
  sim::Config config;
  config.progress = sim::Progress::random;
  PinnedAllocatorOptions options = kAhead;
  options.bytes_cached_max = 6_MiB;
  PinnedTest test(config, options);
  const auto work = [&](unsigned seed) {
    std::vector<Allocation> blocks;
    for (unsigned round = 0; round < 400; ++round) {
      const std::size_t bytes = 1 + (seed * 7919 + round * 104'729) % 300'000;
      blocks.push_back(test.memory.allocate(bytes));
      if (round % 3 != 0) blocks.erase(blocks.begin());
    }
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
  test.memory.finish_background_work();
  CHECK(test.counters().blocks_allocated.current == 0);
  check_whole(test.memory);
}

TEST_CASE("a block that another thread frees while growth is refused serves the request") {
  TappedDevice test;
  PinnedAllocator memory(test.registry, {});
  std::vector<void*> blocks = {memory.allocate_raw(1_MiB)};
  while ((blocks.size() + 1) * 1_MiB <= memory.counters().bytes_reserved.current) {
    blocks.push_back(memory.allocate_raw(1_MiB));
  }
  void* const freed = blocks.back();
  for (const DriverCall call : {DriverCall::mem_host_alloc, DriverCall::mem_host_register}) {
    test.tap.refuse_all(call, CUDA_ERROR_OUT_OF_MEMORY);
    test.tap.before(call, [&] {
      if (std::exchange(blocks.back(), nullptr) != nullptr)
        std::thread([&] { memory.deallocate(freed); }).join();
    });
  }
  CHECK(memory.allocate_raw(1_MiB, {.may_wait = false}) == freed);
  CHECK(blocks.back() == nullptr);
  blocks.back() = freed;
  for (void* const block : blocks) memory.deallocate(block);
}

TEST_CASE("a forked child neither grows nor waits, and the parent's thread continues") {
  PinnedTest test({}, kAhead);
  const Allocation block = test.memory.allocate(100'000);
  void* const freed_by_child = block.data();
  const auto code = exit_code_of([&] {
    test.memory.finish_background_work();
    const bool refused = is_refused_after_fork([&] { (void)test.memory.allocate(200'000); }) &&
                         is_refused_after_fork([&] { (void)test.memory.counters(); });
    test.memory.deallocate(freed_by_child);
    test.memory.unregister(freed_by_child);
    if (test.memory.find_block(freed_by_child) != nullptr) _exit(3);
    test.runtime.reset();
    _exit(refused ? 7 : 8);
    return 0;
  });
  CHECK(code == 7);
  const Allocation more = test.memory.allocate(3_MiB);
  test.memory.finish_background_work();
  CHECK(test.cached() >= 4_MiB);
}

TEST_CASE("an ending thread returns its cached pinned memory") {
  PinnedTest test(machine_of_nodes(2));
  test.errors_expected = true;
  std::thread([&] {
    { const Allocation a = test.memory.allocate(20_MiB, {.near = Device::cuda(0)}); }
    { const Allocation b = test.memory.allocate(20_MiB, {.near = Device::cuda(1)}); }
  }).join();
  CHECK(test.counters().bytes_active.current == 0);
  CHECK(test.memory.trim() == 40_MiB);
  check_whole(test.memory);
}

#if !defined(BERTH_UNDER_ASAN) && !defined(BERTH_UNDER_TSAN)
TEST_CASE("a system that maps no more pages is out of memory, and the next call works") {
  PinnedTest test;
  const Allocation block = test.memory.allocate(1000);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit tight = before;
  tight.rlim_cur = 1_MiB;  // less than there is: nothing more can be mapped
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  const Result<Allocation> refused = test.memory.try_allocate(256_MiB);
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(message_of(refused, Errc::out_of_memory) != "");
  check_whole(test.memory);
  CHECK(test.memory.allocate(32_MiB));
  check_whole(test.memory);
}
#endif

}  // namespace pinned_growth_test
