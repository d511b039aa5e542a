// SPDX-License-Identifier: Apache-2.0
// What an allocator counts and shows: every counter against a known course of events.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"

namespace counters_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

std::size_t count(const MemorySnapshot& snapshot, BlockState state) {
  const auto counts = [state](const BlockInfo& block) {
    return block.state == state && !block.continues;
  };
  std::size_t blocks = 0;
  for (const SegmentInfo& segment : snapshot.segments)
    blocks += std::size_t(std::ranges::count_if(segment.blocks, counts));
  return blocks;
}

const BlockInfo* find(const MemorySnapshot& snapshot, const void* data) {
  for (const SegmentInfo& segment : snapshot.segments) {
    for (const BlockInfo& block : segment.blocks) {
      if (block.data == address_of(data)) return &block;
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE("each counter follows the life of a block") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const Stream user = test.stream();
  CHECK(same_levels(test.counters(), MemoryCounters{}));

  void* const a = test.memory.allocate_raw(1000, own);
  MemoryCounters now = test.counters();
  CHECK(now.bytes_requested.current == 1000);
  CHECK(now.bytes_allocated.current == 1024);
  CHECK(now.bytes_active.current == 1024);
  CHECK(now.bytes_reserved.current == 2_MiB);
  CHECK(now.blocks_allocated.current == 1);
  CHECK(now.blocks_pending.current == 0);
  CHECK(now.blocks_free.current >= 1);
  CHECK(now.allocations == 1);
  CHECK(now.frees == 0);
  CHECK(now.allocations_grown == 1);
  CHECK(now.segments_mapped >= 1);

  void* const b = test.memory.allocate_raw(5000, own);
  now = test.counters();
  CHECK(now.bytes_requested.current == 6000);
  CHECK(now.bytes_allocated.current == 1024 + 5120);
  CHECK(now.allocations == 2);
  CHECK(now.allocations_grown == 1);
  CHECK(now.bytes_reserved.current == 2_MiB);

  test.memory.record_stream(b, user);
  test.log.submit(user, "work");
  test.memory.deallocate(b);
  now = test.counters();
  CHECK(now.bytes_requested.current == 1000);
  CHECK(now.bytes_allocated.current == 1024);
  CHECK(now.bytes_active.current == 1024 + 5120);
  CHECK(now.blocks_pending.current == 1);
  CHECK(now.frees == 1);
  CHECK(now.frees_deferred == 1);
  CHECK(now.frees_reclaimed == 0);
  check_whole(test.memory);

  user.ref().sync();
  test.memory.deallocate(a);
  test.memory.trim();
  now = test.counters();
  CHECK(now.bytes_requested.current == 0);
  CHECK(now.bytes_allocated.current == 0);
  CHECK(now.bytes_active.current == 0);
  CHECK(now.bytes_reserved.current == 0);
  CHECK(now.blocks_allocated.current == 0);
  CHECK(now.blocks_pending.current == 0);
  CHECK(now.blocks_free.current == 0);
  CHECK(now.allocations == 2);
  CHECK(now.frees == 2);
  CHECK(now.frees_reclaimed == 1);
  CHECK(now.segments_released == now.segments_mapped);
  CHECK(now.out_of_memory == 0);
  check_whole(test.memory);
}

TEST_CASE("each allocation counts for the path that served it") {
  MemoryTest test;
  const Stream stream = test.stream();
  const auto paths = [&] {
    const MemoryCounters now = test.counters();
    CHECK(now.allocations == now.allocations_last_freed + now.allocations_thread_cached +
                                 now.allocations_fitted + now.allocations_stitched +
                                 now.allocations_grown);
    return std::array{now.allocations_grown, now.allocations_fitted, now.allocations_last_freed,
                      now.allocations_thread_cached, now.allocations_stitched};
  };
  using Paths = std::array<std::uint64_t, 5>;

  void* const first = test.memory.allocate_raw(1_MiB, stream);
  CHECK(paths() == Paths{1, 0, 0, 0, 0});
  void* const second = test.memory.allocate_raw(512_KiB, stream);
  CHECK(paths() == Paths{1, 1, 0, 0, 0});
  test.memory.deallocate(second);
  CHECK(test.memory.allocate_raw(512_KiB, stream) != nullptr);
  const Paths before = paths();
  CHECK(before[0] + before[1] + before[2] + before[3] == 3);
  test.memory.deallocate(second);
  CHECK(test.memory.allocate_raw(512_KiB, stream) == second);  // it is what was taken last, too
  CHECK(paths()[2] == before[2] + 1);
  test.memory.deallocate(first);
  test.memory.deallocate(second);
  CHECK(test.memory.allocate_raw(1_MiB, stream) == first);
  CHECK(paths()[3] == before[3] + 1);

  // Two granules in use between two that are free: a request of two granules joins these.
  std::vector<void*> granules;
  for (int index = 0; index < 4; ++index)
    granules.push_back(test.memory.allocate_raw(2_MiB, stream));
  test.memory.deallocate(granules[0]);
  test.memory.deallocate(granules[2]);
  const Paths between = paths();
  CHECK(between[4] == 0);
  void* const joined = test.memory.allocate_raw(4_MiB, stream);
  CHECK(paths()[4] == 1);
  for (void* const data : {joined, granules[1], granules[3], first}) test.memory.deallocate(data);
  check_whole(test.memory);
}

TEST_CASE("peaks hold the highest level since the last reset, and a reset sets them to now") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    {
      const Allocation a = test.memory.allocate(30_MiB - 100, stream);
      const Allocation b = test.memory.allocate(10_MiB - 100, stream);
    }
    const Allocation c = test.memory.allocate(5_MiB - 100, stream);
    MemoryCounters now = test.counters();
    CHECK(now.bytes_requested.peak == 40_MiB - 200);
    CHECK(now.bytes_allocated.peak == 40_MiB);
    CHECK(now.bytes_active.peak == 40_MiB);
    CHECK(now.bytes_reserved.peak >= 40_MiB);
    CHECK(now.blocks_allocated.peak == 2);
    CHECK(now.blocks_free.peak >= now.blocks_free.current);

    test.memory.trim();
    const MemoryCounters before = test.counters();
    test.memory.reset_peaks();
    now = test.counters();
    CHECK(same_levels(now, before));
#define BERTH_FIELD(name, help) CHECK_MESSAGE(now.name.peak == now.name.current, #name);
    BERTH_MEMORY_GAUGES(BERTH_FIELD)
#undef BERTH_FIELD
    const Allocation d = test.memory.allocate(1_MiB, stream);
    CHECK(test.counters().bytes_requested.peak == 6_MiB - 100);
    CHECK(test.counters().blocks_allocated.peak == 2);
    check_whole(test.memory);
  });
}

TEST_CASE("the peak of pending blocks and of active bytes covers deferred frees") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const Stream user = test.stream();
  {
    const Allocation a = test.memory.allocate(1_MiB, own);
    const Allocation b = test.memory.allocate(1_MiB, own);
    a.record_stream(user);
    b.record_stream(user);
    test.log.submit(user, "work");
  }
  CHECK(test.counters().blocks_pending.peak == 2);
  CHECK(test.counters().bytes_active.current == 2_MiB);
  CHECK(test.counters().bytes_active.peak == 2_MiB);
  test.simulator.run_all();
  { const Allocation poll = test.memory.allocate(32_MiB, own); }
  CHECK(test.counters().blocks_pending.current == 0);
  CHECK(test.counters().blocks_pending.peak == 2);
  CHECK(test.counters().bytes_active.current == 0);
  CHECK(test.counters().bytes_active.peak == 32_MiB);
}

TEST_CASE("a snapshot lists every block of every segment in address order, with state and stream") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream own = test.stream();
    const Stream user = test.stream();
    const StreamRef legacy = test.runtime->default_stream(Device::cuda(0));
    const Allocation a = test.memory.allocate(1000, own);
    const Allocation b = test.memory.allocate(12_MiB + 5, legacy);
    void* const pending = test.memory.allocate_raw(3'000'000, own);
    void* const freed = test.memory.allocate_raw(40_MiB, own);
    const Allocation last = test.memory.allocate(700, own);
    test.memory.record_stream(pending, user);
    test.log.submit(user, "work");
    test.memory.deallocate(pending);
    test.memory.deallocate(freed);

    const MemorySnapshot snapshot = test.memory.snapshot();
    CHECK(snapshot.allocator == "cuda:0");
    CHECK(same_levels(snapshot.counters, test.counters()));
    CHECK(std::ranges::is_sorted(snapshot.segments, {}, &SegmentInfo::address));
    std::size_t reserved = 0;
    std::size_t largest_free = 0;
    for (const SegmentInfo& segment : snapshot.segments) {
      reserved += segment.bytes;
      std::uintptr_t next = segment.address;
      for (const BlockInfo& block : segment.blocks) {
        CHECK(block.address == next);
        next += block.bytes;
        if (block.state == BlockState::free) {
          largest_free = std::max(largest_free, block.bytes);
          CHECK(block.bytes_requested == 0);
        }
      }
      CHECK(next == segment.address + segment.bytes);
    }
    CHECK(reserved == snapshot.counters.bytes_reserved.current);
    CHECK(snapshot.largest_free_block_bytes == largest_free);
    CHECK(largest_free >= 40_MiB);
    CHECK(count(snapshot, BlockState::allocated) == 3);
    CHECK(count(snapshot, BlockState::pending) == 1);
    CHECK(count(snapshot, BlockState::free) == snapshot.counters.blocks_free.current);

    const BlockInfo* const block_a = find(snapshot, a.data());
    REQUIRE(block_a != nullptr);
    CHECK(block_a->state == BlockState::allocated);
    CHECK(block_a->bytes == 1024);
    CHECK(block_a->bytes_requested == 1000);
    CHECK(block_a->stream == own.ref().native());
    const BlockInfo* const block_b = find(snapshot, b.data());
    REQUIRE(block_b != nullptr);
    CHECK(block_b->bytes_requested == 12_MiB + 5);
    CHECK(block_b->stream == nullptr);
    const BlockInfo* const block_pending = find(snapshot, pending);
    REQUIRE(block_pending != nullptr);
    CHECK(block_pending->state == BlockState::pending);
    CHECK(block_pending->stream == own.ref().native());
  });
}

TEST_CASE("a snapshot of a new allocator is empty and consistent") {
  MemoryTest test;
  const MemorySnapshot snapshot = test.memory.snapshot();
  CHECK(snapshot.segments.empty());
  CHECK(snapshot.largest_free_block_bytes == 0);
  CHECK(find_discrepancies(snapshot).empty());
}

TEST_CASE("an inconsistent counter is reported") {
  MemoryTest test;
  const Stream stream = test.stream();
  const Allocation block = test.memory.allocate(1000, stream);
  const MemorySnapshot whole = test.memory.snapshot();
  REQUIRE(find_discrepancies(whole).empty());
#define BERTH_FIELD(name, help)                                \
  {                                                            \
    MemorySnapshot broken = whole;                             \
    broken.counters.name.current += 512;                       \
    CHECK_MESSAGE(!find_discrepancies(broken).empty(), #name); \
  }
  BERTH_MEMORY_GAUGES(BERTH_FIELD)
#undef BERTH_FIELD
}

TEST_CASE("counters and snapshots make no driver call") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Allocation block = test.memory.allocate(1000, stream);
    const std::uint64_t calls = driver_calls(*test.runtime);
    CHECK(test.memory.counters().allocations == 1);
    CHECK(test.memory.snapshot().segments.size() == 1);
    test.memory.reset_peaks();
    test.memory.validate();
    CHECK(test.memory.owns(block.data()));
    CHECK(driver_calls(*test.runtime) == calls);
  });
}

}  // namespace counters_contract_test
