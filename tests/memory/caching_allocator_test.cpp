// SPDX-License-Identifier: Apache-2.0
// The ladder and the counters. Uses by other streams and destroyed streams are tested in
// caching_allocator_streams_test.cpp, races with other threads in caching_allocator_race_test.cpp,
// and failures of the driver in caching_allocator_fault_test.cpp.
#include "memory/caching_allocator.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/errors.hpp"

namespace caching_allocator_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(AllocatorFixture, "gauges count requested, allocated and reserved bytes") {
  const Stream own = stream();
  void* const small = allocate(1, own);
  void* const large = allocate(3_MiB + 1, own);
  MemoryCounters now = counters();
  CHECK(now.bytes_requested.current == 3_MiB + 2);
  CHECK(now.bytes_allocated.current == 3_MiB + 1024);
  CHECK(now.bytes_active.current == 3_MiB + 1024);
  CHECK(now.bytes_reserved.current == 4_MiB);
  CHECK(now.blocks_allocated.current == 2);
  CHECK(now.blocks_free.current == 1);
  CHECK(now.blocks_pending.current == 0);
  CHECK(now.allocations == 2);
  CHECK(now.allocations_grown == 2);
  CHECK(now.segments_mapped == 2);
  free(large);
  free(small);
  now = counters();
  CHECK(now.bytes_requested.current == 0);
  CHECK(now.bytes_allocated.current == 0);
  CHECK(now.bytes_active.current == 0);
  CHECK(now.bytes_requested.peak == 3_MiB + 2);
  CHECK(now.bytes_allocated.peak == 3_MiB + 1024);
  CHECK(now.bytes_active.peak == 3_MiB + 1024);
  CHECK(now.bytes_reserved.current == 4_MiB);
  CHECK(now.blocks_allocated.current == 0);
  CHECK(now.blocks_allocated.peak == 2);
  CHECK(now.frees == 2);
  CHECK(now.frees_deferred == 0);
}

TEST_CASE_FIXTURE(AllocatorFixture, "resetting the peaks sets each to its current value") {
  const Stream own = stream();
  void* const kept = allocate(1000, own);
  free(allocate(5_MiB, own));
  allocator->reset_peaks();
  const MemoryCounters now = counters();
  CHECK(now.bytes_requested.peak == 1000);
  CHECK(now.bytes_allocated.peak == 1024);
  CHECK(now.bytes_active.peak == 1024);
  CHECK(now.bytes_reserved.peak == now.bytes_reserved.current);
  CHECK(now.blocks_allocated.peak == 1);
  CHECK(now.allocations == 2);
  free(kept);
}

TEST_CASE_FIXTURE(AllocatorFixture, "a hit and a free make no driver call, and count no growth") {
  const Stream own = stream();
  void* const first = allocate(1_MiB, own);
  const std::uint64_t calls = driver_calls();
  free(first);
  CHECK(allocate(1_MiB, own) == first);
  free(first);
  CHECK(driver_calls() == calls);
  CHECK(counters().allocations_grown == 1);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a request of 0 bytes returns null, and null is freed and recorded without effect") {
  const Stream own = stream();
  CHECK(allocate(0, own) == nullptr);
  allocator->deallocate(nullptr);
  allocator->record_stream(nullptr, own);
  CHECK(counters().allocations == 0);
  CHECK(counters().frees == 0);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a stream without work gives its cached memory to another before memory grows") {
  const Stream first = stream();
  const Stream second = stream();
  void* const data = allocate(8_MiB, first);
  free(data);
  CHECK(allocate(8_MiB, second) == data);
  CHECK(counters().bytes_reserved.current == 8_MiB);
  CHECK(counters().blocks_passed_on == 1);
  CHECK(counters().stream_waits_inserted == 0);
  free(data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a stream with work keeps its cached memory while there is room to grow") {
  const Stream first = stream();
  const Stream second = stream();
  void* const data = allocate(8_MiB, first);
  log.submit(first, "earlier");
  free(data);
  void* const other = allocate(8_MiB, second);
  CHECK(other != data);
  CHECK(counters().bytes_reserved.current == 16_MiB);
  CHECK(counters().blocks_passed_on == 0);
  CHECK_FALSE(runs_behind(second, "earlier"));
  CHECK(allocate(8_MiB, first) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture, "streams without a whole free granule are not queried") {
  const Stream first = stream();
  const Stream second = stream();
  allocate(1_MiB, first);  // the other half of its granule is free
  const std::uint64_t queries = simulator.calls("cuStreamQuery");
  allocate(4_MiB, second);
  CHECK(simulator.calls("cuStreamQuery") == queries);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "with no room to grow, busy memory is reused behind a stream wait, not a host wait") {
  const Stream first = stream();
  const Stream second = stream();
  const Stream third = stream();
  void* const a = allocate(30_MiB, first);
  void* const b = allocate(30_MiB, second);
  log.submit(first, "first");
  log.submit(second, "second");
  free(a);
  free(b);
  void* const taken = allocate(30_MiB, third);
  CHECK((taken == a || taken == b));
  CHECK(counters().stream_waits_inserted > 0);
  CHECK(counters().deferred_free_waits == 0);
  CHECK(log.done().empty());
  CHECK(runs_behind(third, taken == a ? "first" : "second"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory of an idle and of a busy stream serves one request, in stream order") {
  const Stream first = stream();
  const Stream second = stream();
  const Stream third = stream();
  void* const a = allocate(30_MiB, first);
  void* const b = allocate(30_MiB, second);
  log.submit(second, "earlier");
  free(a);
  free(b);
  CHECK(allocate(60_MiB, third) != nullptr);
  CHECK((log.is_done("earlier") || runs_behind(third, "earlier")));
  CHECK(counters().out_of_memory == 0);
}

TEST_CASE_FIXTURE(SegmentsAllocatorFixture,
                  "whole segments too are taken over behind the work of their stream") {
  const Stream first = stream();
  const Stream second = stream();
  void* const data = allocate(60_MiB, first);
  log.submit(first, "earlier");
  free(data);
  CHECK(allocate(50_MiB, second) == data);
  CHECK(counters().stream_waits_inserted == 1);
  CHECK(runs_behind(second, "earlier"));
}

TEST_CASE_FIXTURE(SegmentsAllocatorFixture,
                  "idle segments that do not fit are returned, as many as are needed") {
  const Stream own = stream();
  std::vector<void*> blocks;
  for (int index = 0; index < 4; ++index) blocks.push_back(allocate(14_MiB, own));
  for (void* block : blocks) free(block);
  void* const large = allocate(20_MiB, own);
  CHECK(large != nullptr);
  CHECK(counters().segments_released == 2);
  CHECK(counters().bytes_reserved.current == 48_MiB);
}

TEST_CASE("the limit refuses growth before any driver call, and leaves nothing held") {
  AllocatorFixture test({.bytes_reserved_max = 8_MiB});
  const Stream own = test.stream();
  void* const first = test.allocate(6_MiB, own);
  const std::uint64_t created = test.simulator.calls("cuMemCreate");
  message_of<OutOfMemory>([&] { return test.allocate(3_MiB, own); });
  test.allocator->validate();
  CHECK(test.simulator.calls("cuMemCreate") == created);
  CHECK(test.counters().limit_rejections > 0);
  CHECK(test.counters().bytes_reserved.current == 6_MiB);
  CHECK(test.allocate(2_MiB, own) != nullptr);  // exactly up to the limit
  CHECK(test.counters().bytes_reserved.current == 8_MiB);
  test.budget.set_limits({});
  CHECK(test.allocate(3_MiB, own) != nullptr);
  test.free(first);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a request beyond the capacity is refused at once, and the error says so") {
  const Stream own = stream();
  const std::uint64_t calls = driver_calls();
  const std::string message = message_of<OutOfMemory>([&] { return allocate(64_MiB + 1, own); });
  CHECK(contains(message, "the capacity"));
  message_of<OutOfMemory>([&] { return allocate(~std::size_t{0}, own); });
  CHECK(driver_calls() == calls);
  CHECK(counters().out_of_memory == 2);
  CHECK(allocate(64_MiB, own) != nullptr);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "the out-of-memory error has the current numbers, the driver's included") {
  const Stream own = stream();
  const Stream user = stream();
  allocate(40_MiB, own);
  free(allocate(20_MiB, own));
  const std::string message = message_of<OutOfMemory>([&] { return allocate(30_MiB, own); });
  for (const char* part : {"cuda:0", "30.0 MiB", "40.0 MiB live", "64.0 MiB"})
    CHECK_MESSAGE(contains(message, part), message);
  CHECK(counters().out_of_memory == 1);
  CHECK(allocate(24_MiB, own) != nullptr);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "trim waits for the streams whose memory it returns, and returns all but live blocks") {
  const Stream first = stream();
  const Stream second = stream();
  void* const live = allocate(3_MiB, first);
  void* const cached = allocate(9_MiB, first);
  void* const theirs = allocate(10_MiB, second);
  log.submit(first, "first");
  log.submit(second, "second");
  free(cached);
  free(theirs);
  CHECK(allocator->trim(0) == 18_MiB);
  CHECK(log.done().size() == 2);
  CHECK(counters().bytes_reserved.current == 4_MiB);
  CHECK(counters().segments_released >= 1);
  CHECK(simulator.device_bytes_used(0) == 4_MiB);
  allocator->validate();
  free(live);
  CHECK(allocator->trim(0) == 4_MiB);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a live block is found by any address in it, others only owned") {
  const Stream own = stream();
  auto* const data = static_cast<char*>(allocate(1_MiB, own));
  CHECK(allocator->look_up(data).block == data);
  CHECK(allocator->look_up(data).bytes == 1_MiB);
  CHECK(allocator->look_up(data + 1_MiB - 1).block == data);
  CHECK(allocator->look_up(data + 1_MiB).block == nullptr);
  CHECK(allocator->owns(data + 1_MiB));
  CHECK_FALSE(allocator->owns(data + 2_MiB));  // address space without memory
  CHECK_FALSE(allocator->owns(data - 1));
  CHECK_FALSE(allocator->owns(nullptr));
  free(data);
  CHECK(allocator->look_up(data).block == nullptr);
  CHECK(allocator->owns(data));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a pointer that is no live block is refused, and nothing changes") {
  const Stream own = stream();
  const Stream user = stream();
  auto* const live = static_cast<char*>(allocate(1_MiB, own));
  void* const pending = allocate(2_MiB, own);
  void* const freed = allocate(4_MiB, own);
  free_used_by(pending, user, "use");
  free(freed);
  int local = 0;
  const MemoryCounters before = counters();
  for (void* const wrong :
       {static_cast<void*>(live + 512), pending, freed, static_cast<void*>(&local)}) {
    message_of<InvalidArgument>([&] {
      allocator->deallocate(wrong);
      return 0;
    });
    message_of<InvalidArgument>([&] {
      allocator->record_stream(wrong, user);
      return 0;
    });
  }
  CHECK(counters().frees == before.frees);
  CHECK(counters().bytes_active.current == before.bytes_active.current);
  allocator->validate();
  free(live);
}

// Both leave less than a granule free on a busy stream, right below address space that one granule
// more would fill.
TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory with pending work is joined with a last growth before a request fails") {
  const Stream own = stream();
  const Stream busy = stream();
  allocate(61_MiB, busy);
  void* const tail = allocate(1_MiB, busy);
  REQUIRE(counters().bytes_reserved.current == 62_MiB);
  log.submit(busy, "earlier");
  free(tail);
  CHECK_NOTHROW(allocate(3_MiB, own));
  CHECK(counters().out_of_memory == 0);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "memory that was taken over is joined with a last growth before a request fails") {
  const Stream own = stream();
  const Stream busy = stream();
  allocate(59_MiB, busy);
  void* const middle = allocate(1_MiB, busy);
  allocate(1_MiB, busy);
  void* const tail = allocate(1_MiB, busy);
  REQUIRE(counters().bytes_reserved.current == 62_MiB);
  log.submit(busy, "earlier");
  free(middle);
  free(tail);
  CHECK_NOTHROW(allocate(2_MiB + 512, own));
  CHECK(counters().out_of_memory == 0);
}

TEST_CASE("the pressure callback runs without locks, after all rungs that do not block the host") {
  AllocatorFixture* test = nullptr;
  void* spilled = nullptr;
  std::vector<std::size_t> asked;
  AllocatorFixture fixture({.on_pressure = [&](std::size_t bytes) {
    asked.push_back(bytes);
    CHECK_FALSE(test->log.is_done("use"));
    test->allocator->validate();
    test->allocator->deallocate(std::exchange(spilled, nullptr));
    test->allocator->trim(0);
    return true;
  }});
  test = &fixture;
  const Stream own = fixture.stream();
  const Stream user = fixture.stream();
  fixture.free_used_by(fixture.allocate(10_MiB, own), user, "use");
  spilled = fixture.allocate(40_MiB, own);
  CHECK(fixture.allocate(50_MiB, own) != nullptr);
  CHECK(asked == std::vector<std::size_t>{50_MiB});
  CHECK(fixture.counters().out_of_memory == 0);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "the snapshot lists mapped blocks by address, with their live streams") {
  const Stream own = stream();
  const Stream user = stream();
  void* const live = allocate(3_MiB, own);
  void* const pending = allocate(2_MiB, own);
  free_used_by(pending, user, "use");
  const MemorySnapshot snapshot = allocator->snapshot();
  CHECK(snapshot.allocator == "cuda:0");
  REQUIRE(snapshot.segments.size() == 1);
  const SegmentInfo& segment = snapshot.segments.front();
  CHECK(segment.bytes == 6_MiB);
  REQUIRE(segment.blocks.size() == 3);
  CHECK(segment.blocks[0].address == reinterpret_cast<std::uintptr_t>(live));
  CHECK(segment.blocks[0].state == BlockState::allocated);
  CHECK(segment.blocks[0].bytes_requested == 3_MiB);
  CHECK(segment.blocks[0].stream == own.ref().native());
  CHECK(segment.blocks[1].state == BlockState::free);
  CHECK(segment.blocks[1].bytes == 1_MiB);
  CHECK(segment.blocks[2].state == BlockState::pending);
  CHECK(segment.blocks[2].bytes_requested == 0);
  CHECK(snapshot.largest_free_block_bytes == 1_MiB);
  allocator->retire_stream(own);
  CHECK(allocator->snapshot().segments.front().blocks[0].stream == std::nullopt);
  free(live);
}

}  // namespace caching_allocator_test
