// SPDX-License-Identifier: Apache-2.0
// deallocate() with the stream that used a block last: the work behind which the block is reused,
// and what the call costs on the block's own stream.
#include <doctest/doctest.h>

#include "memory/use_test.hpp"
#include "support/errors.hpp"

namespace free_behind_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = UseTest::kBytes;

std::uint64_t records(const UseTest& test) {
  return driver_calls(*test.runtime, "cuEventRecord");
}

}  // namespace

TEST_CASE("on its own stream a block is freed without a call, and serves its stream at once") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    void* const first = test.allocate();
    test.memory.deallocate(test.allocate());
    test.memory.deallocate(first);  // the thread has two blocks in its cache of the stream
    const std::uint64_t before = driver_calls(*test.runtime);
    void* const data = test.allocate();
    void* const beside = test.allocate();
    test.memory.deallocate(data, test.own);    // not the last one
    test.memory.deallocate(beside, test.own);  // the last one
    CHECK(test.counters().frees_deferred == 0);
    CHECK(test.allocate() == beside);
    CHECK(test.allocate() == data);
    CHECK(driver_calls(*test.runtime) == before);
    test.memory.deallocate(data, test.own);
    test.memory.deallocate(beside, test.own);
    check_whole(test.memory);
  });
}

TEST_CASE("a block freed behind another stream's work waits for that work, and for no later work") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    for (const bool last : {true, false}) {
      CAPTURE(last);
      UseTest test(options);
      test.memory.deallocate(test.allocate());
      void* const data = test.allocate();
      void* const beside = last ? nullptr : test.allocate();
      test.log.submit(test.user, "use");
      const std::uint64_t before = records(test);
      test.memory.deallocate(data, test.user);
      CHECK(records(test) == before + 1);
      test.log.submit(test.user, "later");
      CHECK(test.counters().frees_deferred == 1);
      CHECK_FALSE(test.is_reused(data));
      test.run_to_the_end_of("use", test.user);
      CHECK(test.is_reused(data));
      CHECK_FALSE(test.log.is_done("later"));
      test.memory.deallocate(beside);
      check_whole(test.memory);
    }
  });
}

TEST_CASE("a stream that has a cache of its own does not take another stream's block") {
  UseTest test;
  const Allocation warm = test.memory.allocate(kBytes, test.user);
  test.memory.deallocate(test.memory.allocate_raw(kBytes, test.user), test.user);
  test.memory.deallocate(test.allocate());
  void* const data = test.allocate();
  test.log.submit(test.user, "use");
  test.memory.deallocate(data, test.user);
  CHECK(test.counters().frees_deferred == 1);
  CHECK_FALSE(test.is_reused(data));
}

TEST_CASE("blocks of private pools are freed behind the work, too") {
  UseTest test;
  MemoryPool pool = test.memory.create_pool({.name = "private"});
  void* const data = pool.allocate_raw(kBytes, test.own);
  test.log.submit(test.user, "use");
  test.memory.deallocate(data, test.user);
  CHECK(pool.counters().frees_deferred == 1);
  test.memory.deallocate(pool.allocate_raw(kBytes, test.own), test.own);
  CHECK(pool.counters().blocks_allocated.current == 0);
  CHECK(pool.counters().frees_deferred == 1);
}

TEST_CASE("a refused free leaves the block live") {
  UseTest test;
  int no_block = 0;
  CHECK_THROWS_AS(test.memory.deallocate(&no_block, test.own), InvalidArgument);
  void* const data = test.allocate();
  CHECK_THROWS_AS(
      test.memory.deallocate(data, test.runtime->per_thread_default_stream(Device::cuda(0))),
      InvalidArgument);
  CHECK(test.counters().blocks_allocated.current == 1);
  test.memory.deallocate(nullptr, test.own);
  test.memory.deallocate(data, test.own);
  CHECK_THROWS_AS(test.memory.deallocate(data, test.own), InvalidArgument);
  CHECK(test.counters().blocks_allocated.current == 0);
}

TEST_CASE("a stream of another device is refused, whatever its handle") {
  sim::Config config;
  config.devices = 2;
  UseTest test({}, config);
  // They have the same handle.
  const StreamRef own = test.runtime->default_stream(Device::cuda(0));
  const StreamRef other = test.runtime->default_stream(Device::cuda(1));
  test.memory.deallocate(test.memory.allocate_raw(kBytes, own));
  void* const data = test.memory.allocate_raw(kBytes, own);
  CHECK_THROWS_AS(test.memory.deallocate(data, other), InvalidArgument);
  CHECK(test.counters().blocks_allocated.current == 1);
  test.memory.deallocate(data, own);
}

}  // namespace free_behind_test
