// SPDX-License-Identifier: Apache-2.0
// Limits with several pools and failures of the driver: no growth is left half done, and no pool
// returns memory that would not help.
#include <chrono>
#include <csignal>
#include <unistd.h>

#include <doctest/doctest.h>

#include "memory/demand_history.hpp"
#include "memory/memory_fixture.hpp"
#include "pool/pools_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace pool_limits_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a failed query of free memory leaves no partial growth") {
  const auto code = exit_code_of([] {
    DeviceAllocatorOptions options;
    options.headroom_bytes = 4_MiB;
    PoolsTest test(options);
    const Stream stream = test.stream();
    test.tap.refuse(DriverCall::mem_get_info, CUDA_ERROR_UNKNOWN);
    const bool failed = throws([&] { return test.memory.allocate(2_MiB, stream); });
    test.memory.validate();
    const bool fits = test.memory.try_allocate(60_MiB, stream).ok();
    _exit(failed && fits ? 0 : 1);
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("a failed query under the soft limit leaves no partial growth") {
  bool failed = true;
  for (int nth = 1; failed && nth < 30; ++nth) {
    CAPTURE(nth);
    const auto code = exit_code_of([&] {
      DeviceAllocatorOptions options;
      options.limits.bytes_reserved_soft_max = 8_MiB;
      PoolsTest test(options);
      const Stream stream = test.stream();
      const Stream other = test.stream();
      const Allocation live = test.memory.allocate(8_MiB, stream);
      { const Allocation cached = test.memory.allocate(2_MiB, other); }
      test.log.submit(other, "use");
      test.tap.refuse(DriverCall::stream_query, CUDA_ERROR_UNKNOWN, nth);
      const bool refused = throws([&] { static_cast<void>(test.memory.allocate(20_MiB, stream)); });
      test.tap.allow(DriverCall::stream_query);
      test.memory.validate();
      test.simulator.run_all();
      test.memory.set_limits({});
      const bool fits = test.memory.try_allocate(54_MiB, stream).ok();
      _exit(!refused ? 2 : fits ? 0 : 1);
      return 0;
    });
    failed = code == 0;
    CHECK((code == 0 || code == 2));
  }
}

TEST_CASE("memory beyond a lowered limit serves requests that are larger than the limit") {
  for (const CrossStreamReuse reuse :
       {CrossStreamReuse::never, CrossStreamReuse::when_idle, CrossStreamReuse::behind_waits,
        CrossStreamReuse::before_growth}) {
    CAPTURE(static_cast<int>(reuse));
    DeviceAllocatorOptions options;
    options.cross_stream_reuse = reuse;
    PoolsTest test(options);
    const Stream owner = test.stream();
    const Stream other = test.stream();
    {
      const Allocation low = test.memory.allocate(22_MiB, owner);
      const Allocation live = test.memory.allocate(512, owner);
      const Allocation high = test.memory.allocate(22_MiB, owner);
    }
    const Allocation small = test.memory.allocate(512, owner);
    test.memory.set_limits({.bytes_reserved_max = MemoryAmount(40_MiB)});
    CHECK(test.memory.allocate(44_MiB, owner).data() != nullptr);
    {  // freed behind work that has not run
      const Allocation block = test.memory.allocate(44_MiB, owner);
      test.log.submit(owner, "use");
    }
    CHECK(test.memory.allocate(44_MiB, other).data() != nullptr);
    const Allocation recorded = test.memory.allocate(44_MiB, other);
    test.memory.record_stream(recorded.data(), owner);
    CHECK(throws([&] { return test.memory.allocate(44_MiB, owner); }));  // it is live
    CHECK(test.memory.counters().bytes_reserved.current > 40_MiB);
    test.memory.validate();
  }
}

TEST_CASE("memory beyond a lowered limit whose use by another stream is over serves a request") {
  PoolsTest test;
  const Stream owner = test.stream();
  const Stream other = test.stream();
  Allocation block = test.memory.allocate(44_MiB, owner);
  test.memory.record_stream(block.data(), other);
  block.reset();
  test.memory.set_limits({.bytes_reserved_max = MemoryAmount(40_MiB)});
  CHECK(test.memory.allocate(44_MiB, owner).data() != nullptr);
}

TEST_CASE("a request beyond the soft limit does not loop forever") {
  const auto code = exit_code_of([] {
    std::signal(SIGALRM, SIG_DFL);
    alarm(kHangSeconds);
    DeviceAllocatorOptions options;
    options.limits.bytes_reserved_soft_max = 8_MiB;
    PoolsTest test(options);
    const Stream stream = test.stream();
    { const Allocation cached = test.memory.allocate(2_MiB, stream); }
    const bool fits = test.memory.try_allocate(20_MiB, stream).ok();
    _exit(fits ? 0 : 1);
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("trim reports all returned bytes, including those of closed pools") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  Allocation block;
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    block = pool.allocate(2_MiB, stream);
  }
  block.reset();
  CHECK(test.memory.trim() == 2_MiB);
}

TEST_CASE("after a query of a short period a longer one is unanswered, and never too low") {
  using std::chrono::seconds;
  DemandHistory history;
  const DemandHistory::Time begin{};
  history.add(begin, 100);
  history.add(begin + seconds(50), 100);
  history.add(begin + seconds(100), 5);
  CHECK(history.most_since(begin + seconds(90)) == 5);
  CHECK_FALSE(history.most_since(begin + seconds(40)));  // the older demand is forgotten
}

TEST_CASE("a pool that wakes leaves the headroom to others") {
  DeviceAllocatorOptions options;
  options.headroom_bytes = 16_MiB;
  PoolsTest test(options);
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Allocation block = pool.allocate(32_MiB, stream);
  pool.sleep();
  const CUdeviceptr others = test.allocate_beside(32_MiB);
  CHECK(throws([&] { pool.wake(); }));
  test.free_beside(others);
}

TEST_CASE("a request beyond its own pool's limit takes nothing from other pools") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  MemoryPoolOptions options{.name = "pool"};
  options.limits.bytes_reserved_max = 4_MiB;
  MemoryPool pool = test.memory.create_pool(options);
  const Allocation live = pool.allocate(4_MiB, stream);
  { const Allocation cached = test.memory.allocate(32_MiB, stream); }
  message_of<OutOfMemory>([&] { return pool.allocate(2_MiB, stream); });
  CHECK(test.counters().bytes_reserved.current == 32_MiB);
}

TEST_CASE("a pool that wakes into its own limit takes nothing from other pools") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Allocation live = pool.allocate(4_MiB, stream);
  pool.sleep();
  MemoryLimits limits;
  limits.bytes_reserved_max = 2_MiB;
  pool.set_limits(limits);
  { const Allocation cached = test.memory.allocate(32_MiB, stream); }
  message_of<OutOfMemory>([&] { pool.wake(); });
  CHECK(test.counters().bytes_reserved.current == 32_MiB);
}

TEST_CASE("beyond its own soft limit a pool reclaims nothing from others") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  MemoryPoolOptions options{.name = "pool"};
  options.limits.bytes_reserved_soft_max = 4_MiB;
  MemoryPool pool = test.memory.create_pool(options);
  { const Allocation cached = test.memory.allocate(16_MiB, stream); }
  const Allocation live = pool.allocate(8_MiB, stream);
  CHECK(test.counters().bytes_reserved.current == 16_MiB);
}

}  // namespace pool_limits_test
