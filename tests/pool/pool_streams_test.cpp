// SPDX-License-Identifier: Apache-2.0
// Pools that are created and closed together with streams.
#include <thread>
#include <vector>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"
#include "support/foreign_stream.hpp"

namespace pool_streams_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a closed pool with a live block is notified of destroyed streams") {
  MemoryTest test(small_device(64_MiB));
  Allocation live;
  {
    const Stream stream = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    live = pool.allocate(2_MiB, stream);
    { const Allocation cached = pool.allocate(4_MiB, stream); }
  }
  live.reset();
  test.memory.trim();
  CHECK(test.simulator.calls("cuCtxSynchronize") == 0);
  CHECK(test.memory.pool_snapshots().empty());
  CHECK(test.counters().bytes_reserved.current == 0);
}

TEST_CASE("a closed pool is notified that a stream goes away that uses its live block") {
  MemoryTest test(small_device(64_MiB, sim::Progress::manual));
  const Stream own = test.stream();
  Allocation live;
  {
    const Stream user = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    live = pool.allocate(2_MiB, own);
    live.record_stream(user);
    test.log.submit(user, "use");
  }
  live.reset();  // marks the use, and must not name the stream
  test.simulator.run_all();
  test.memory.trim();
  CHECK(test.simulator.calls("cuCtxSynchronize") == 0);
  CHECK(test.memory.pool_snapshots().empty());
  CHECK(test.counters().bytes_reserved.current == 0);
  CHECK(test.reports.all().empty());
}

TEST_CASE("closing a pool waits for work of foreign streams") {
  MemoryTest test(small_device(64_MiB, sim::Progress::manual));
  const StreamRef foreign = disown(test.stream());
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    const Allocation block = pool.allocate(2_MiB, foreign);
    test.log.submit(foreign, "use");
  }
  test.memory.trim();
  CHECK(test.memory.pool_snapshots().empty());
  CHECK(test.log.is_done("use"));
  test.memory.retire_stream(foreign);
  destroy_disowned(foreign);
}

TEST_CASE("a pool is notified of a foreign stream that the device allocator retires") {
  MemoryTest test(small_device(64_MiB, sim::Progress::manual));
  const StreamRef foreign = disown(test.stream());
  const Stream other = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  {
    const Allocation block = pool.allocate(40_MiB, foreign);
    test.log.submit(foreign, "use");
  }
  test.memory.retire_stream(foreign);
  destroy_disowned(foreign);
  const Allocation next = pool.allocate(40_MiB, other);
  // Behind the work that the stream had, and no wait for the device.
  CHECK(test.simulator.calls("cuCtxSynchronize") == 0);
  test.log.submit(other, "next");
  CHECK((test.log.is_done("use") || !test.log.is_done("next")));
  CHECK(test.reports.count(Severity::warning) == 0);
  test.simulator.run_all();
}

TEST_CASE("threads create and destroy pools and streams without using a destroyed stream") {
  MemoryTest test(small_device(256_MiB));
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const Stream stream = test.stream();
        MemoryPool pool = test.memory.create_pool({.name = "pool"});
        const Allocation block = pool.allocate(2_MiB, stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  test.memory.trim();
  CHECK(test.memory.pool_snapshots().empty());
}

}  // namespace pool_streams_test
