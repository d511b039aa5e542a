// SPDX-License-Identifier: Apache-2.0
// Release of memory that was not needed for a while: how much, on call and in the background.
#include <chrono>
#include <string>
#include <thread>

#include "memory/allocator_fixture.hpp"
#include "memory/demand_history.hpp"
#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace release_unused_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

namespace {

const DemandHistory::Time kBegin{1h};

}  // namespace

TEST_CASE("a history reports the peak demand, once it is long enough") {
  DemandHistory history;
  CHECK_FALSE(history.most_since(kBegin));
  history.add(kBegin, 5);
  CHECK_FALSE(history.most_since(kBegin - 1s));
  CHECK(history.most_since(kBegin) == 0);
  history.add(kBegin + 1s, 70);
  history.add(kBegin + 2s, 30);
  history.add(kBegin + 3s, 10);
  CHECK(history.most_since(kBegin) == 70);
  CHECK(history.most_since(kBegin + 999ms) == 70);  // counts in full
  CHECK(history.most_since(kBegin + 1s) == 30);
  CHECK(history.most_since(kBegin + 2s) == 10);
  CHECK(history.most_since(kBegin + 3s) == 0);
}

TEST_CASE("exactly the memory that was not needed in the period is released") {
  AllocatorFixture test;
  const Stream stream = test.stream();
  CachingAllocator& allocator = *test.allocator;
  test.free(test.allocate(40_MiB, stream));
  CHECK(allocator.release_unused(10s, kBegin) == 0);  // nobody has watched so far
  CHECK(allocator.release_unused(10s, kBegin + 9s) == 0);
  test.free(test.allocate(14_MiB, stream));
  CHECK(allocator.release_unused(10s, kBegin + 11s) == 26_MiB);
  CHECK(test.counters().bytes_reserved.current == 14_MiB);
  const std::uint64_t grown = test.counters().allocations_grown;
  test.free(test.allocate(14_MiB, stream));
  CHECK(test.counters().allocations_grown == grown);
  CHECK(allocator.release_unused(10s, kBegin + 20s) == 0);
  CHECK(allocator.release_unused(10s, kBegin + 31s) == 14_MiB);
  allocator.validate();
}

TEST_CASE("a block whose free awaits another stream is needed once") {
  AllocatorFixture test;
  const Stream stream = test.stream();
  const Stream user = test.stream();
  CachingAllocator& allocator = *test.allocator;
  test.free(test.allocate(40_MiB, stream));
  CHECK(allocator.release_unused(10s, kBegin) == 0);
  void* const block = test.allocate(20_MiB, stream);
  allocator.record_use(block, user);
  test.free(block);
  CHECK(allocator.release_unused(10s, kBegin + 11s) == 20_MiB);
  allocator.validate();
}

TEST_CASE("a small block that is repeatedly allocated retains only its own size") {
  AllocatorFixture test;
  const Stream stream = test.stream();
  test.free(test.allocate(40_MiB, stream));
  test.allocator->release_unused(10s, kBegin);
  for (int second = 1; second <= 11; ++second) {
    test.free(test.allocate(512, stream));
    test.allocator->release_unused(10s, kBegin + second * 1s);
  }
  CHECK(test.counters().bytes_reserved.current == 2_MiB);
}

TEST_CASE("memory with pending work is not waited for and released the next time") {
  AllocatorFixture test;
  const Stream stream = test.stream();
  void* const block = test.allocate(40_MiB, stream);
  test.log.submit(stream, "use");
  test.free(block);
  test.allocator->release_unused(10s, kBegin);
  test.allocator->release_unused(10s, kBegin + 1s);
  CHECK(test.allocator->release_unused(10s, kBegin + 12s) == 0);
  CHECK_FALSE(test.log.is_done("use"));
  test.simulator.run_all();
  CHECK(test.allocator->release_unused(10s, kBegin + 13s) == 40_MiB);
}

TEST_CASE("blocks that await an event count as needed") {
  AllocatorFixture test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  test.allocator->release_unused(10s, kBegin);
  void* const block = test.allocate(20_MiB, own);
  test.free_used_by(block, user, "use");
  test.allocator->release_unused(10s, kBegin + 1s);
  CHECK(test.allocator->release_unused(10s, kBegin + 20s) == 0);
  test.simulator.run_all();
  test.allocator->release_unused(10s, kBegin + 21s);
  test.allocate(512, own);  // takes note that the event has passed
  CHECK(test.allocator->release_unused(1s, kBegin + 23s) == 0);
  CHECK(test.allocator->release_unused(1s, kBegin + 25s) == 18_MiB);
}

TEST_CASE("the peaks of the statistics are not changed") {
  AllocatorFixture test;
  const Stream stream = test.stream();
  test.free(test.allocate(40_MiB, stream));
  test.allocator->release_unused(0s, kBegin);
  test.allocator->release_unused(0s, kBegin + 1s);
  CHECK(test.counters().bytes_active.peak == 40_MiB);
}

TEST_CASE("the background thread releases unused memory") {
  DeviceAllocatorOptions options;
  options.release_unused_after = 1ms;
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  { const Allocation block = test.memory.allocate(20_MiB, stream); }
  { const Allocation block = pool.allocate(20_MiB, stream); }
  // The driver has the memory before the counters of each pool say so: wait for all of them.
  while (test.counters().bytes_reserved.current > 0) std::this_thread::yield();
  while (pool.counters().bytes_reserved.current > 0) std::this_thread::yield();
  CHECK(test.simulator.device_bytes_used(0) == 0);
}

TEST_CASE("a release_unused_after of 0 is refused") {
  DeviceAllocatorOptions options;
  options.release_unused_after = 0ms;
  const auto message = message_of<InvalidArgument>([&] { MemoryTest test({}, options); });
  CHECK(contains(message, "release_unused_after"));
}

}  // namespace release_unused_test
