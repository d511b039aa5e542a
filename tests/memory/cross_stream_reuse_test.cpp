// SPDX-License-Identifier: Apache-2.0
// DeviceAllocatorOptions::cross_stream_reuse: when a request gets memory that other streams have
// freed, how much, and at what cost. Work is pending until a test runs it or the host waits for it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/reuse_fixture.hpp"
#include "support/reuse_policies.hpp"

namespace cross_stream_reuse_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Streams that take turns, each idle before the next begins, in the same requests.
struct Turns {
  std::uint64_t calls = 0;      ///< of the driver by requests, but for those of the first round
  std::uint64_t reserved = 0;   ///< bytes
  std::uint64_t passed_on = 0;  ///< blocks
  std::set<const void*> addresses;
};

Turns take_turns(ReuseTest& test) {
  constexpr std::size_t kSizes[] = {8_MiB, 3_MiB, 700, 1_MiB};
  const std::array streams = {test.stream(), test.stream(), test.stream()};
  Turns turns;
  for (int round = 0; round < 4; ++round) {
    for (const Stream& stream : streams) {
      std::vector<Allocation> blocks;
      const std::uint64_t calls = driver_calls(*test.runtime);
      for (const std::size_t bytes : kSizes) blocks.push_back(test.memory.allocate(bytes, stream));
      if (round > 0) turns.calls += driver_calls(*test.runtime) - calls;
      for (const Allocation& block : blocks) {
        test.write(block, stream);
        turns.addresses.insert(block.data());
      }
      blocks.clear();
      stream.ref().sync();
    }
  }
  turns.reserved = test.reserved();
  turns.passed_on = test.counters().blocks_passed_on;
  return turns;
}

}  // namespace

TEST_CASE("never: streams that take turns keep their own memory and make no driver call") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.segment_bytes = 2_MiB;
    ReuseTest test(CrossStreamReuse::never, options);
    const Turns turns = take_turns(test);
    CHECK(turns.calls == 0);
    CHECK(turns.passed_on == 0);
    CHECK(turns.addresses.size() == 12);
  });
}

TEST_CASE("when_idle and behind_waits: streams that take turns share memory and are queried") {
  for (const auto reuse : {CrossStreamReuse::when_idle, CrossStreamReuse::behind_waits}) {
    CAPTURE(static_cast<int>(reuse));
    ReuseTest test(reuse);
    const Turns turns = take_turns(test);
    CHECK(turns.calls > 0);
    CHECK(turns.passed_on > 0);
    CHECK(turns.reserved <= 18_MiB);
    CHECK(test.counters().stream_waits_inserted == 0);
  }
}

TEST_CASE("never: memory grows despite free memory of idle streams, which are not queried") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    ReuseTest test(CrossStreamReuse::never, options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    const void* const left = test.leave(20_MiB, first);
    const std::uint64_t questions = test.questions();
    Allocation beside = test.allocate(20_MiB, second);
    CHECK_FALSE(overlap(beside.data(), 20_MiB, left, 20_MiB));
    CHECK(test.reserved() == 40_MiB);
    CHECK(test.questions() == questions);
    CHECK(test.counters().blocks_passed_on == 0);
    CHECK(test.memory.allocate(20_MiB, first).data() == left);
  });
}

TEST_CASE("when_idle: memory of an idle stream is reused, and that of a busy one is not") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    ReuseTest test(CrossStreamReuse::when_idle, options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    const void* const busy = test.cache(20_MiB, first);
    Allocation beside = test.allocate(20_MiB, second);
    CHECK_FALSE(overlap(beside.data(), 20_MiB, busy, 20_MiB));
    CHECK(test.counters().blocks_passed_on == 0);
    first.ref().sync();
    CHECK(test.memory.allocate(20_MiB, second).data() == busy);
    CHECK(test.counters().blocks_passed_on == 1);
  });
}

TEST_CASE("never: memory of a drained stream serves others before memory grows") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    ReuseTest test(CrossStreamReuse::never, options);
    const Stream next = test.stream();
    const void* left = nullptr;
    {
      const Stream gone = test.stream();
      left = test.cache(20_MiB, gone);
    }
    const Allocation beside = test.allocate(20_MiB, next);  // its last work may still run
    CHECK_FALSE(overlap(beside.data(), 20_MiB, left, 20_MiB));
    test.simulator.run_all();
    CHECK(test.memory.allocate(20_MiB, next).data() == left);
    CHECK(test.reserved() == 40_MiB);
  });
}

TEST_CASE("never: holes of a drained stream are joined before memory grows") {
  ReuseTest test(CrossStreamReuse::never);
  const Stream next = test.stream();
  {
    const Stream gone = test.stream();
    std::vector<Allocation> row;
    while (row.size() < 6) row.push_back(test.allocate(1_MiB, gone));
    row[1].reset();  // the end of a granule
    row[4].reset();  // the beginning of another
    test.walls = std::move(row);
  }
  test.simulator.run_all();
  const Allocation block = test.allocate(2_MiB - 512, next);
  CHECK(test.reserved() == 6_MiB);
  CHECK(test.counters().page_remaps == 2);
}

TEST_CASE("never: at the limit whole granules move to a request through the driver") {
  DeviceAllocatorOptions options;
  SUBCASE("at the limit of reserved bytes") {
    options.limits.bytes_reserved_max = 56_MiB;
  }
  SUBCASE("at the headroom") {
    options.headroom_bytes = 8_MiB;
  }
  ReuseTest test(CrossStreamReuse::never, options);
  const Stream first = test.stream();
  const Stream second = test.stream();
  const Allocation own = test.allocate(16_MiB, second);
  const void* const left = test.leave(40_MiB, first);
  const std::uint64_t created = driver_calls(*test.runtime, "cuMemCreate");
  const Allocation block = test.allocate(24_MiB, second);
  CHECK(test.reserved() == 56_MiB);
  CHECK(driver_calls(*test.runtime, "cuMemCreate") == created + 12);
  CHECK(test.counters().blocks_passed_on == 0);
  CHECK(test.counters().segments_released == 1);
  const std::uint64_t calls = driver_calls(*test.runtime);
  const Allocation rest = test.memory.allocate(16_MiB, first);
  CHECK(overlap(rest.data(), rest.bytes(), left, 40_MiB));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("never: if the driver has no memory left, whole granules are returned and mapped again") {
  ReuseTest test(CrossStreamReuse::never);
  const Stream first = test.stream();
  const Stream second = test.stream();
  static_cast<void>(test.leave(60_MiB, first));
  const Allocation block = test.allocate(40_MiB, second);
  CHECK(test.counters().blocks_passed_on == 0);
  CHECK(test.counters().segments_released > 0);
  CHECK(test.reserved() == 60_MiB);
}

TEST_CASE("never: a request joins its own granules with as many others as it lacks") {
  ReuseTest test(CrossStreamReuse::never, {.limits = {.bytes_reserved_max = 64_MiB}});
  const Stream first = test.stream();
  const Stream second = test.stream();
  static_cast<void>(test.leave(20_MiB, second));
  static_cast<void>(test.leave(44_MiB, first));
  const Allocation block = test.allocate(32_MiB, second);
  CHECK(test.reserved() == 64_MiB);
  CHECK(test.counters().blocks_passed_on == 0);
  const std::uint64_t calls = driver_calls(*test.runtime);
  CHECK(test.memory.allocate(32_MiB, first));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("never: at the limit as many segments are returned as a request lacks") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  options.segment_bytes = 2_MiB;
  ReuseTest test(CrossStreamReuse::never, options);
  const Stream first = test.stream();
  const Stream second = test.stream();
  {
    const Allocation small = test.allocate(20_MiB, first);
    const Allocation large = test.allocate(40_MiB, first);
  }
  first.ref().sync();
  const Allocation block = test.allocate(30_MiB, second);
  CHECK(test.reserved() == 50_MiB);
  CHECK(test.counters().blocks_passed_on == 0);
  CHECK(test.counters().segments_released == 1);
  const std::uint64_t calls = driver_calls(*test.runtime);
  CHECK(test.memory.allocate(20_MiB, first));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("never: free parts of used granules serve any stream as the last resort") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.limits.bytes_reserved_max = 40_MiB;
    ReuseTest test(CrossStreamReuse::never, options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    test.leave_holes(40, first);
    REQUIRE(test.reserved() == 40_MiB);
    const Allocation block = test.allocate(1_MiB, second);
    CHECK(test.counters().blocks_passed_on > 0);
    CHECK(test.counters().segments_released == 0);
    const std::uint64_t calls = driver_calls(*test.runtime);
    CHECK(test.memory.allocate(1_MiB, second));  // all of it is open now
    CHECK(driver_calls(*test.runtime) == calls);
  });
}

TEST_CASE("memory of an idle and of a busy stream together serves one request") {
  with_each_reuse([](CrossStreamReuse reuse) {
    with_each_backing([reuse](const DeviceAllocatorOptions& options) {
      ReuseTest test(reuse, options);
      const Stream idle = test.stream();
      const Stream busy = test.stream();
      const Stream third = test.stream();
      static_cast<void>(test.leave(30_MiB, idle));
      static_cast<void>(test.cache(30_MiB, busy));
      CHECK(test.allocate(60_MiB, third));
      CHECK((test.counters().stream_waits_inserted > 0) ==
            (reuse >= CrossStreamReuse::behind_waits));
    });
  });
}

TEST_CASE("never: beyond the soft limit only the excess is returned") {
  ReuseTest test(CrossStreamReuse::never, {.limits = {.bytes_reserved_soft_max = 32_MiB}});
  const Stream first = test.stream();
  const Stream second = test.stream();
  static_cast<void>(test.leave(30_MiB, first));
  const Allocation block = test.allocate(16_MiB, second);
  CHECK(test.reserved() == 32_MiB);
  CHECK(test.counters().blocks_passed_on == 0);
  const std::uint64_t calls = driver_calls(*test.runtime);
  CHECK(test.memory.allocate(16_MiB, first));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("never: memory that trim keeps stays with its stream") {
  with_each_reuse([](CrossStreamReuse reuse) {
    ReuseTest test(reuse);
    const Stream first = test.stream();
    const Stream second = test.stream();
    static_cast<void>(test.cache(40_MiB, first));
    CHECK(test.memory.trim(16_MiB) == 24_MiB);
    const bool is_open = reuse != CrossStreamReuse::never;
    CHECK((test.counters().blocks_passed_on > 0) == is_open);
    static_cast<void>(test.cache(10_MiB, second));
    CHECK(test.reserved() == (is_open ? 16_MiB : 26_MiB));
  });
}

TEST_CASE("never: free memory that trim cannot return serves any stream") {
  ReuseTest test(CrossStreamReuse::never);
  const Stream first = test.stream();
  const Stream second = test.stream();
  test.leave_holes(16, first);
  CHECK(test.memory.trim() == 0);
  const std::uint64_t calls = driver_calls(*test.runtime);
  const Allocation block = test.memory.allocate(1_MiB, second);
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(test.reserved() == 16_MiB);
}

TEST_CASE("never: a pool returns as much as another lacks, and keeps the rest by stream") {
  ReuseTest test(CrossStreamReuse::never);
  const Stream first = test.stream();
  const Stream second = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  { const Allocation cached = pool.allocate(60_MiB, first); }
  const Allocation block = test.allocate(30_MiB, second);
  CHECK(pool.counters().bytes_reserved.current == 30_MiB);
  CHECK(pool.counters().blocks_passed_on == 0);
  const std::uint64_t calls = driver_calls(*test.runtime);
  CHECK(pool.allocate(30_MiB, first));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("a pool for graphs passes idle memory to a captured stream") {
  with_each_reuse([](CrossStreamReuse reuse) {
    with_each_backing([reuse](const DeviceAllocatorOptions& options) {
      ReuseTest test(reuse, options);
      const Stream idle = test.stream();
      const Stream captured = test.stream();
      MemoryPool pool = test.memory.create_pool({.name = "graph", .for_graphs = true});
      const void* left = nullptr;
      {
        const Allocation block = pool.allocate(40_MiB, idle);
        left = block.data();
      }
      const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
      REQUIRE(sim::berth_sim_cuStreamBeginCapture(captured.ref().native(),
                                                  CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
      const Allocation beside = pool.allocate(10_MiB, captured);
      CHECK(overlap(beside.data(), 10_MiB, left, 40_MiB) == (reuse != CrossStreamReuse::never));
      const Allocation passed_on = pool.allocate(30_MiB, captured);
      CHECK(overlap(passed_on.data(), 30_MiB, left, 40_MiB));
      CHECK(pool.counters().segments_released == 0);
      CUgraph graph = nullptr;
      REQUIRE(sim::berth_sim_cuStreamEndCapture(captured.ref().native(), &graph) == CUDA_SUCCESS);
      REQUIRE(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
    });
  });
}

TEST_CASE("never: second mappings stay within their bound, though memory passes to no stream") {
  constexpr std::size_t kRow = 14;        // granules of each stream
  constexpr std::size_t kJoined = 4;      // of them, in one block
  constexpr std::size_t kSteps = 8;       // for which work is pending
  constexpr std::size_t kKept = 16 * 32;  // mappings: sixteen for each granule of the device
  constexpr std::size_t kPending = 160;   // steps that pass the bound
  constexpr std::size_t kMappingsMax = 32 + kKept + 4 * kSteps * kJoined;
  ReuseTest test(CrossStreamReuse::never);
  const std::array streams = {test.stream(), test.stream()};
  std::array<std::vector<Allocation>, 2> rows;
  for (std::size_t index = 0; index < 2 * kRow; ++index)
    rows[index % 2].push_back(test.allocate(2_MiB, streams[index % 2]));
  std::mt19937 random(7);
  for (std::size_t step = 0; step < 1200; ++step) {
    CAPTURE(step);
    const Stream& stream = streams[step % 2];
    std::vector<Allocation>& row = rows[step % 2];
    std::ranges::shuffle(row, random);
    row.resize(kRow - kJoined);
    static_cast<void>(test.cache(kJoined * 2_MiB, stream));
    while (row.size() < kRow) row.push_back(test.memory.allocate(2_MiB, stream));
    if (step < kPending) continue;  // all work is pending: no window may go
    if (step % kSteps == 0) test.simulator.run_all();
    if (step > kPending + 2 * kSteps) REQUIRE(test.simulator.live().mappings <= kMappingsMax);
  }
  CHECK(test.counters().page_remaps > 2 * kKept);
  CHECK(test.counters().blocks_passed_on == 0);
}

}  // namespace cross_stream_reuse_test
