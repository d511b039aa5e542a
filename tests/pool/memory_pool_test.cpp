// SPDX-License-Identifier: Apache-2.0
// Private pools: their memory and its lifetime, and the routes of scopes.
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace memory_pool_test {

using namespace berth;
using namespace berth::test;

namespace {

std::size_t reserved(const MemoryPool& pool) {
  return pool.counters().bytes_reserved.current;
}

}  // namespace

TEST_CASE("a private pool has memory, counters and a name of its own") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "weights"});
    CHECK(pool.name() == "cuda:0/weights");
    const Allocation block = pool.allocate(3_MiB, stream);
    CHECK(pool.owns(block.data()));
    CHECK(test.memory.owns(block.data()));
    CHECK(pool.counters().bytes_requested.current == 3_MiB);
    CHECK(test.counters().bytes_requested.current == 0);
    CHECK(test.counters().bytes_reserved.current == 0);
    CHECK(pool.snapshot().allocator == "cuda:0/weights");
    CHECK(test.runtime->statistics().allocators.size() == 4);
    pool.validate();
  });
}

TEST_CASE("memory cached in one pool is not allocated from another") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool red = test.memory.create_pool({.name = "red"});
  MemoryPool blue = test.memory.create_pool({.name = "blue"});
  void* const freed = red.allocate_raw(1_MiB, stream);
  red.deallocate(freed);
  const Allocation other = blue.allocate(1_MiB, stream);
  const Allocation device = test.memory.allocate(1_MiB, stream);
  CHECK_FALSE(red.owns(other.data()));
  CHECK_FALSE(red.owns(device.data()));
  const Allocation again = red.allocate(1_MiB, stream);
  CHECK(again.data() == freed);
}

TEST_CASE("a block of a pool may be freed and recorded through the device's allocator") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const Stream user = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  void* const data = pool.allocate_raw(1_MiB, own);
  test.memory.record_stream(data, user);
  test.log.submit(user, "earlier");
  test.memory.deallocate(data);
  CHECK(pool.counters().blocks_pending.current == 1);
  CHECK(test.counters().frees == 0);
  test.simulator.run_all();
}

TEST_CASE("freeing with the wrong pool is refused, and changes nothing") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool red = test.memory.create_pool({.name = "red"});
  MemoryPool blue = test.memory.create_pool({.name = "blue"});
  const Allocation block = red.allocate(1_MiB, stream);
  const std::string message = message_of<InvalidArgument>([&] { blue.deallocate(block.data()); });
  CHECK(contains(message, "cuda:0/blue"));
  CHECK(red.counters().blocks_allocated.current == 1);
}

TEST_CASE("a closed pool returns its memory, except live blocks") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.segment_bytes = 2_MiB;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    std::uint64_t used = 0;
    Allocation live;
    {
      MemoryPool pool = test.memory.create_pool({.name = "pool"});
      live = pool.allocate(2_MiB, stream);
      const Allocation gone = pool.allocate(6_MiB, stream);
      used = test.simulator.device_bytes_used(0);
    }
    CHECK(test.simulator.device_bytes_used(0) == used - 6_MiB);
    CHECK(test.runtime->statistics().allocators.size() == 4);  // what is live is still shown
    live.reset();
    test.memory.trim();
    CHECK(test.simulator.device_bytes_used(0) == used - 8_MiB);
    CHECK(test.runtime->statistics().allocators.size() == 3);
  });
}

TEST_CASE("copies of a handle are one pool, which the last of them closes") {
  MemoryTest test;
  const Stream stream = test.stream();
  std::optional<MemoryPool> first = test.memory.create_pool({.name = "pool"});
  std::optional<MemoryPool> second = first;
  { const Allocation block = second->allocate(2_MiB, stream); }
  first.reset();
  CHECK(reserved(*second) == 2_MiB);
  second.reset();
  CHECK(test.runtime->statistics().allocators.size() == 3);
}

TEST_CASE("closing a pool waits for the work that used its memory") {
  MemoryTest test(manual_progress());
  const Stream stream = test.stream();
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    const Allocation block = pool.allocate(2_MiB, stream);
    test.log.submit(stream, "use");
  }
  CHECK(test.log.is_done("use"));
}

TEST_CASE("a retired foreign stream may be destroyed although pools hold its memory") {
  MemoryTest test(small_device(64_MiB, sim::Progress::manual));
  const Stream survivor = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  CUstream foreign = nullptr;
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&foreign, CU_STREAM_NON_BLOCKING, 0) ==
            CUDA_SUCCESS);
  }
  const StreamRef ref = test.runtime->stream(Device::cuda(0), foreign);
  void* const cached = pool.allocate_raw(60_MiB, ref);
  test.log.submit(ref, "earlier");
  pool.deallocate(cached);
  test.memory.retire_stream(ref);
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuStreamDestroy(foreign) == CUDA_SUCCESS);
  }
  const Allocation block = pool.allocate(60_MiB, survivor);
  CHECK(test.apart_or_in_order(cached, 60_MiB, block.data(), 60_MiB, survivor));
  pool.validate();
}

TEST_CASE("a scope on a thread routes only that thread's requests to its pool") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  Allocation before = test.memory.allocate(4096, stream);
  before.reset();  // at hand now for the next request of this size
  Allocation mine, other;
  {
    const PoolScope scope = PoolScope::on_this_thread(pool);
    mine = test.memory.allocate(4096, stream);
    std::thread([&] { other = test.memory.allocate(4096, stream); }).join();
  }
  const Allocation after = test.memory.allocate(4096, stream);
  CHECK(pool.owns(mine.data()));
  CHECK_FALSE(pool.owns(other.data()));
  CHECK_FALSE(pool.owns(after.data()));
}

TEST_CASE("a scope on a stream sends requests on it to its pool, from every thread") {
  MemoryTest test;
  const Stream red = test.stream();
  const Stream blue = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const PoolScope scope = PoolScope::on_stream(pool, red);
  Allocation elsewhere;
  std::thread([&] { elsewhere = test.memory.allocate(4096, red); }).join();
  CHECK(pool.owns(elsewhere.data()));
  CHECK(pool.owns(test.memory.allocate(4096, red).data()));
  CHECK_FALSE(pool.owns(test.memory.allocate(4096, blue).data()));
}

TEST_CASE("a scope on a destroyed stream routes nothing to its pool") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const PoolScope scope = PoolScope::on_stream(pool, stream);
  CHECK(pool.owns(test.memory.allocate(4096, stream).data()));
  test.memory.retire_stream(
      stream);  // and used again, as a later stream of the same handle would be
  CHECK_FALSE(pool.owns(test.memory.allocate(4096, stream).data()));
}

TEST_CASE("the latest scope applies, and scopes end in any order") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool outer = test.memory.create_pool({.name = "outer"});
  MemoryPool inner = test.memory.create_pool({.name = "inner"});
  std::optional<PoolScope> first = PoolScope::on_this_thread(outer);
  std::optional<PoolScope> second = PoolScope::on_stream(inner, stream);
  CHECK(inner.owns(test.memory.allocate(4096, stream).data()));
  first.reset();
  CHECK(inner.owns(test.memory.allocate(4096, stream).data()));
  second.reset();
  const Allocation block = test.memory.allocate(4096, stream);
  CHECK_FALSE(inner.owns(block.data()));
  CHECK_FALSE(outer.owns(block.data()));
}

TEST_CASE("a scope on a thread may end on another") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  std::optional<PoolScope> scope = PoolScope::on_this_thread(pool);
  std::thread([&] { scope.reset(); }).join();
  CHECK_FALSE(pool.owns(test.memory.allocate(4096, stream).data()));
}

TEST_CASE("bad names, and streams of other devices, are refused") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  for (const std::string& name : {std::string(), std::string(65, 'x'), std::string("two\nlines")}) {
    message_of<InvalidArgument>([&] { return test.memory.create_pool({.name = name}); });
  }
  MemoryPool pool = test.memory.create_pool({.name = std::string(64, 'x')});
  const Stream foreign = test.runtime->create_stream(Device::cuda(1));
  message_of<InvalidArgument>([&] { return PoolScope::on_stream(pool, foreign); });
  message_of<InvalidArgument>([&] { return pool.allocate(1, foreign); });
}

TEST_CASE(
    "a pool that is short of memory reclaims cached memory of others, used memory after its work") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream red = test.stream();
    const Stream blue = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    { const Allocation cached = test.memory.allocate(40_MiB, red); }
    const Allocation idle = pool.allocate(40_MiB, blue);
    CHECK(idle.data() != nullptr);
    CHECK(test.counters().bytes_reserved.current < 40_MiB);
  });
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream red = test.stream();
    const Stream blue = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    {
      const Allocation used = test.memory.allocate(40_MiB, red);
      test.log.submit(red, "use");
    }
    const Allocation waited = pool.allocate(40_MiB, blue);
    CHECK(test.log.is_done("use"));
  });
}

}  // namespace memory_pool_test
