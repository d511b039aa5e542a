// SPDX-License-Identifier: Apache-2.0
// Pools that are closed while streams or scopes end, blocks are freed or requests are served.
#include <functional>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "pool/pools_fixture.hpp"
#include "support/second_thread.hpp"

namespace pool_lifetime_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a closed pool is removed after the free of its last block has returned") {
  PoolsTest test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  Allocation block;
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    block = pool.allocate(2_MiB, own);
  }
  block.record_stream(user);
  SecondThread second;
  std::size_t pools_meanwhile = 0;
  // The block is pending, and its event not recorded yet.
  test.tap.before(DriverCall::event_record, [&] {
    second.run([&] {
      test.memory.trim();  // marks the use as well
      test.simulator.run_all();
      test.memory.trim();
      pools_meanwhile = test.memory.pool_snapshots().size();
    });
  });
  block.reset();
  CHECK(pools_meanwhile == 1);
}

TEST_CASE("a pool that is closed after its device has failed says so, and names no capture") {
  PoolsTest test;
  std::optional<Stream> stream = test.stream();
  std::optional<MemoryPool> pool = test.memory.create_pool({.name = "pool"});
  pool->deallocate(pool->allocate_raw(1_MiB, *stream));
  const DriverCall calls[] = {DriverCall::event_record, DriverCall::stream_synchronize,
                              DriverCall::stream_query, DriverCall::ctx_synchronize};
  for (const DriverCall call : calls) test.tap.refuse_all(call, CUDA_ERROR_LAUNCH_FAILED);
  stream.reset();
  pool.reset();
  CHECK(
      test.reports.mention("cuda:0/pool is closed, but keeps its memory: cuda:0/pool awaits "
                           "streams that berth can no longer query, and the wait for the device "
                           "failed: CUDA_ERROR_LAUNCH_FAILED"));
  CHECK_FALSE(test.reports.mention("captured"));
  for (const DriverCall call : calls) test.tap.allow(call);
}

TEST_CASE("a stream may go away while a pool is closed") {
  PoolsTest test;
  std::optional<Stream> stream = test.stream();
  std::optional<MemoryPool> pool = test.memory.create_pool({.name = "pool"});
  { const Allocation block = pool->allocate(2_MiB, *stream); }
  { const Allocation block = test.memory.allocate(2_MiB, *stream); }
  SecondThread second;
  // The device's own allocator is told first; the pool's turn comes.
  test.tap.after(DriverCall::event_record, [&] { second.run([&] { pool.reset(); }); });
  stream.reset();
  CHECK(test.memory.pool_snapshots().empty());
}

TEST_CASE("a request routed to a pool is served although the scope ends meanwhile") {
  std::optional<MemoryPool> pool;
  std::optional<PoolScope> scope;
  SecondThread second;
  std::function<void()> free_others;
  DeviceAllocatorOptions options;
  options.on_pressure = [&](std::size_t) {
    second.run([&] {
      scope.reset();
      pool.reset();
    });
    free_others();
    return true;
  };
  PoolsTest test(options);
  const Stream stream = test.stream();
  pool.emplace(test.memory.create_pool({.name = "pool"}));
  const CUdeviceptr others = test.allocate_beside(40_MiB);
  free_others = [&] { test.free_beside(others); };
  scope.emplace(PoolScope::on_stream(*pool, stream));
  void* const data = test.memory.allocate_raw(40_MiB, stream);
  CHECK(test.memory.owns(data));
  CHECK(test.used() == 40_MiB);
}

TEST_CASE("a pool closes while its streams go away") {
  PoolsTest test;
  std::optional<Stream> first = test.stream();
  std::optional<Stream> second = test.stream();
  std::optional<Stream> third = test.stream();
  std::optional<MemoryPool> pool = test.memory.create_pool({.name = "pool"});
  for (const StreamRef stream : {first->ref(), second->ref(), third->ref()}) {
    const Allocation block = pool->allocate(2_MiB, stream);
  }
  SecondThread other;
  test.tap.before(DriverCall::event_synchronize, [&] {
    other.run([&] {
      first.reset();  // which is waited for
      second.reset();
      pool->trim();
      third.reset();
    });
  });
  pool.reset();
  CHECK(test.used() == 0);
  CHECK(test.reports.all().empty());
}

TEST_CASE("a pool that could not be closed at once is closed later") {
  PoolsTest test;
  const Stream stream = test.stream();
  std::optional<MemoryPool> pool = test.memory.create_pool({.name = "pool"});
  { const Allocation block = pool->allocate(2_MiB, stream); }
  test.tap.refuse(DriverCall::event_synchronize, CUDA_ERROR_UNKNOWN);
  pool.reset();
  CHECK(test.memory.pool_snapshots().size() == 1);
  test.memory.trim();
  CHECK(test.memory.pool_snapshots().empty());
}

TEST_CASE("a closed pool with deferred frees is removed although it sleeps") {
  PoolsTest test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    const Allocation block = pool.allocate(2_MiB, own);
    block.record_stream(user);
    pool.sleep();
  }
  test.memory.trim();
  test.simulator.run_all();
  test.memory.trim();
  CHECK(test.memory.pool_snapshots().empty());
}

TEST_CASE("sleep by name leaves live blocks of closed pools alone") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  Allocation block;
  {
    MemoryPool pool = test.memory.create_pool({.name = "kv"});
    block = pool.allocate(2_MiB, stream);
  }
  MemoryPool next = test.memory.create_pool({.name = "kv"});
  test.memory.sleep("kv");
  CHECK_FALSE(test.simulator.peek(address_of(block.data()), 1).empty());
}

TEST_CASE("a scope of an ended thread applies to no later thread") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  std::optional<PoolScope> scope;
  std::thread([&] { scope.emplace(PoolScope::on_this_thread(pool)); }).join();
  Allocation block;
  std::thread([&] { block = test.memory.allocate(4096, stream); }).join();
  CHECK_FALSE(pool.owns(block.data()));
}

TEST_CASE("a scope on the legacy default stream applies to both of its handles") {
  MemoryTest test;
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const PoolScope scope = PoolScope::on_stream(pool, test.runtime->default_stream(Device::cuda(0)));
  const StreamRef other_name = test.runtime->stream(Device::cuda(0), CU_STREAM_LEGACY);
  CHECK(pool.owns(test.memory.allocate(4096, other_name).data()));
}

}  // namespace pool_lifetime_test
