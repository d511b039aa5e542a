// SPDX-License-Identifier: Apache-2.0
// The ladder, the counters and the order of streams. What happens when other threads come in
// between is caching_allocator_race_test.cpp's, refusals of the driver
// caching_allocator_fault_test.cpp's.
#include "memory/caching_allocator.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/errors.hpp"

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(AllocatorFixture,
                  "gauges count what was asked, what was given, and what was obtained for it") {
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

TEST_CASE_FIXTURE(AllocatorFixture,
                  "resetting the peaks sets each to what it is now, and nothing else") {
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

TEST_CASE_FIXTURE(AllocatorFixture,
                  "0 bytes is null, and null is freed and recorded without a trace") {
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
  CHECK(counters().blocks_disowned == 1);
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
  CHECK(counters().blocks_disowned == 0);
  CHECK_FALSE(runs_behind(second, "earlier"));
  CHECK(allocate(8_MiB, first) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "no stream is asked whether it is idle where all that is free does not suffice") {
  const Stream first = stream();
  const Stream second = stream();
  free(allocate(2_MiB, first));
  const std::uint64_t queries = simulator.calls("cuStreamQuery");
  allocate(4_MiB, second);
  CHECK(simulator.calls("cuStreamQuery") == queries);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "with no room to grow, busy memory is taken over behind a wait, not behind the host") {
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
  CHECK(counters().pending_free_waits == 0);
  CHECK(log.done().empty());
  CHECK(runs_behind(third, taken == a ? "first" : "second"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory of an idle and of a busy stream together serves one request, in order") {
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
                  "idle segments that do not fit are given back, as many as are missing") {
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
  AllocatorFixture test({.reserved_bytes_max = 8_MiB});
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
  test.allocator->set_reserved_bytes_max(std::nullopt);
  CHECK(test.allocate(3_MiB, own) != nullptr);
  test.free(first);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "more than there can ever be is refused at once, with its own words") {
  const Stream own = stream();
  const std::uint64_t calls = driver_calls();
  const std::string message = message_of<OutOfMemory>([&] { return allocate(64_MiB + 1, own); });
  CHECK(contains(message, "all there is"));
  message_of<OutOfMemory>([&] { return allocate(~std::size_t{0}, own); });
  CHECK(driver_calls() == calls);
  CHECK(counters().out_of_memory == 2);
  CHECK(allocate(64_MiB, own) != nullptr);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "out of memory tells the numbers of this moment, the driver's included") {
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

TEST_CASE_FIXTURE(AllocatorFixture,
                  "recording a block's own stream, by either name, defers nothing") {
  const Stream own = stream();
  void* const data = allocate(1_MiB, own);
  allocator->record_stream(data, own);
  free(data);
  void* const on_legacy = allocate(4_MiB, StreamRef(context, nullptr));
  allocator->record_stream(on_legacy, StreamRef(context, CU_STREAM_LEGACY));
  free(on_legacy);
  CHECK(counters().frees_deferred == 0);
  CHECK(counters().blocks_free.current == 2);
}

TEST_CASE_FIXTURE(AllocatorFixture, "recording a stream twice is recording it once") {
  const Stream own = stream();
  const Stream user = stream();
  void* const data = allocate(60_MiB, own);
  allocator->record_stream(data, user);
  allocator->record_stream(data, user);
  const std::uint64_t records = simulator.calls("cuEventRecord");
  free(data);
  CHECK(simulator.calls("cuEventRecord") == records + 1);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(user);
  CHECK(allocate(60_MiB, own) == data);
  CHECK(counters().frees_reclaimed == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a deferred free counts as active until each of its streams has passed") {
  const Stream own = stream();
  const Stream user = stream();
  const Stream other_user = stream();
  void* const data = allocate(60_MiB, own);
  allocator->record_stream(data, other_user);
  log.submit(other_user, "other use");
  free_used_by(data, user, "use");
  CHECK(counters().bytes_active.current == 60_MiB);
  CHECK(counters().bytes_allocated.current == 0);
  CHECK(counters().bytes_requested.current == 0);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(user);
  void* const small = allocate(2_MiB, own);  // polls: one of two has passed
  CHECK(small != data);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(other_user);
  CHECK(allocate(60_MiB, own) == data);
  CHECK(counters().blocks_pending.current == 0);
  CHECK(counters().frees_reclaimed == 1);
  CHECK(counters().pending_free_waits == 0);
  CHECK(counters().bytes_active.current == 62_MiB);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a deferred free goes back to its own stream, behind that stream's work") {
  const Stream own = stream();
  const Stream user = stream();
  const Stream third = stream();
  void* const data = allocate(60_MiB, own);
  log.submit(own, "own work");
  free_used_by(data, user, "use");
  run_stream(user);
  CHECK(allocate(60_MiB, third) == data);
  CHECK(runs_behind(third, "own work"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "with nothing else left the host waits, for the oldest deferred free first") {
  const Stream own = stream();
  const Stream early = stream();
  const Stream late = stream();
  void* const a = allocate(30_MiB, own);
  void* const b = allocate(30_MiB, own);
  free_used_by(b, late, "first freed");
  free_used_by(a, early, "second freed");
  CHECK(allocate(30_MiB, own) == b);
  CHECK(log.is_done("first freed"));
  CHECK_FALSE(log.is_done("second freed"));
  CHECK(counters().pending_free_waits == 1);
  CHECK(allocate(30_MiB, own) == a);
  CHECK(counters().pending_free_waits == 2);
}

TEST_CASE_FIXTURE(AllocatorFixture, "a use by a stream that is over delays nothing") {
  const Stream own = stream();
  void* const data = allocate(1_MiB, own);
  {
    const Stream user = stream();
    allocator->record_stream(data, user);
    log.submit(user, "use");
  }  // its last work is marked
  simulator.run_all();
  allocator->trim(~std::size_t{0});  // learns that the last work has passed
  free(data);
  CHECK(counters().frees_deferred == 0);
  CHECK(allocate(1_MiB, own) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a use by a stream that went away is waited for until its last work has passed") {
  const Stream own = stream();
  void* const data = allocate(40_MiB, own);
  {
    const Stream user = stream();
    allocator->record_stream(data, user);
    log.submit(user, "use");
  }
  free(data);
  CHECK(counters().blocks_pending.current == 1);
  void* const other = allocate(24_MiB, own);
  CHECK(other != data);
  CHECK(counters().blocks_pending.current == 1);
  CHECK_FALSE(log.is_done("use"));
  simulator.run_all();
  CHECK(allocate(40_MiB, own) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory cached for a stream that went away is reused behind its last work only") {
  const Stream next = stream();
  void* data = nullptr;
  {
    const Stream gone = stream();
    data = allocate(60_MiB, gone);
    log.submit(gone, "last work");
    free(data);
  }
  CHECK(allocate(60_MiB, next) == data);
  CHECK(runs_behind(next, "last work"));
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a block freed after its stream went away is reused behind that stream's last work only") {
  const Stream next = stream();
  void* data = nullptr;
  {
    const Stream gone = stream();
    data = allocate(60_MiB, gone);
    log.submit(gone, "last work");
  }
  free(data);
  CHECK(counters().frees_deferred == 0);
  CHECK(allocate(60_MiB, next) == data);
  CHECK(runs_behind(next, "last work"));
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "once the last work of a stream that went away has passed, its memory is anyone's") {
  const Stream next = stream();
  void* cached = nullptr;
  void* live = nullptr;
  {
    const Stream gone = stream();
    cached = allocate(10_MiB, gone);
    live = allocate(10_MiB, gone);
    log.submit(gone, "last work");
    free(cached);
  }
  simulator.run_all();
  CHECK(allocate(10_MiB, next) == cached);
  free(live);
  const std::uint64_t calls = driver_calls();
  CHECK(allocate(10_MiB, next) == live);
  CHECK(driver_calls() == calls);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a handle that comes back is a new stream, which gets the old one's memory like any other") {
  Stream own = stream();
  void* const data = allocate(8_MiB, own);
  void* const kept = allocate(2_MiB, own);
  log.submit(own, "last work");
  free(data);
  allocator->retire_stream(own);  // and used again, as if a later stream had got the handle
  CHECK(allocate(8_MiB, own) != data);
  CHECK(counters().bytes_reserved.current == 18_MiB);
  allocator->record_stream(kept, own);  // not the stream that the block is ordered on
  free(kept);
  CHECK(counters().frees_deferred == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "retiring a stream that the allocator never met makes no driver call") {
  const Stream own = stream();
  const std::uint64_t calls = driver_calls();
  allocator->retire_stream(own);
  CHECK(driver_calls() == calls);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "trim waits for the streams whose memory it returns, and gives back all but what is live") {
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

TEST_CASE_FIXTURE(AllocatorFixture, "trim leaves memory that a deferred free awaits") {
  const Stream own = stream();
  const Stream user = stream();
  free_used_by(allocate(8_MiB, own), user, "use");
  CHECK(allocator->trim(0) == 0);
  CHECK_FALSE(log.is_done("use"));
  run_stream(user);
  CHECK(allocator->trim(0) == 8_MiB);
  CHECK(counters().frees_reclaimed == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a live block is found by any address in it, others only owned") {
  const Stream own = stream();
  auto* const data = static_cast<char*>(allocate(1_MiB, own));
  CHECK(allocator->find_block(data) == data);
  CHECK(allocator->find_block(data + 1_MiB - 1) == data);
  CHECK(allocator->find_block(data + 1_MiB) == nullptr);
  CHECK(allocator->owns(data + 1_MiB));
  CHECK_FALSE(allocator->owns(data + 2_MiB));  // address space without memory
  CHECK_FALSE(allocator->owns(data - 1));
  CHECK_FALSE(allocator->owns(nullptr));
  free(data);
  CHECK(allocator->find_block(data) == nullptr);
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

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory without a stream is nobody's: reused at once, or behind its uses") {
  const Stream user = stream();
  void* const data = allocate(40_MiB, std::nullopt);
  free(data);
  CHECK(allocate(40_MiB, std::nullopt) == data);
  free_used_by(data, user, "use");
  void* const other = allocate(20_MiB, std::nullopt);
  CHECK(other != data);
  CHECK_FALSE(log.is_done("use"));
  run_stream(user);
  CHECK(allocate(40_MiB, std::nullopt) == data);
  CHECK(counters().frees_reclaimed == 1);
}

// Both leave less than a granule free on a busy stream, right below address space that one granule
// more would fill.
TEST_CASE_FIXTURE(
    AllocatorFixture,
    "memory that has to be waited for is joined with a last growth before a request fails") {
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

TEST_CASE(
    "the pressure callback comes after all that does not cost the host a wait, with no lock held") {
  AllocatorFixture* test = nullptr;
  void* spilled = nullptr;
  std::vector<std::size_t> asked;
  AllocatorFixture fixture({.on_pressure = [&](std::size_t bytes) {
    asked.push_back(bytes);
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
  CHECK_FALSE(fixture.log.is_done("use"));
  CHECK(fixture.counters().out_of_memory == 0);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "the end waits for deferred frees, and leaves nothing in the driver") {
  const Stream own = stream();
  const Stream user = stream();
  free_used_by(allocate(8_MiB, own), user, "use");
  free(allocate(4_MiB, own));
  allocate(1_MiB, own);
  context.remove_observer(*allocator);
  allocator.reset();
  CHECK(log.is_done("use"));
  CHECK(simulator.live().mappings == 0);
  CHECK(simulator.live().reservations == 0);
  CHECK(events.leases_live() == 0);
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "the snapshot has each mapped block in address order, with its stream while that lives") {
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
  CHECK(segment.blocks[1].state == BlockState::pending);
  CHECK(segment.blocks[1].bytes_requested == 0);
  CHECK(segment.blocks[2].state == BlockState::free);
  CHECK(segment.blocks[2].bytes == 1_MiB);
  CHECK(snapshot.largest_free_block_bytes == 1_MiB);
  allocator->retire_stream(own);
  CHECK(allocator->snapshot().segments.front().blocks[0].stream == nullptr);
  free(live);
}
