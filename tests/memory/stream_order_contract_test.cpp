// SPDX-License-Identifier: Apache-2.0
// When freed memory may be used again, and by which stream. Work is pending throughout: in manual
// progress it runs only where a test steps it or a host call waits for it.
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace stream_order_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// All calls but those that look up or switch the thread's current context.
std::uint64_t calls_beside_context(const Runtime& runtime) {
  std::uint64_t calls = driver_calls(runtime);
  for (const char* switching :
       {"cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"})
    calls -= driver_calls(runtime, switching);
  return calls;
}

}  // namespace

TEST_CASE("a block freed on its stream is reused there at once, without any driver call") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{4096}, 1_MiB - 300, 3_MiB, 40_MiB}) {
      CAPTURE(bytes);
      MemoryTest test(manual_progress(), options);
      const Stream stream = test.stream();
      void* const first = test.memory.allocate_raw(bytes, stream);
      test.log.submit(stream, "work");
      const std::uint64_t calls = driver_calls(*test.runtime);
      test.memory.deallocate(first);
      void* const second = test.memory.allocate_raw(bytes, stream);
      CHECK(second == first);
      CHECK(driver_calls(*test.runtime) == calls);
      CHECK_FALSE(test.log.is_done("work"));
      CHECK(test.counters().allocations_grown == 1);
      test.memory.deallocate(second);
      check_whole(test.memory);
    }
  });
}

TEST_CASE("a working set that repeats on a stream needs no driver call from the second round on") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream stream = test.stream();
    std::uint64_t calls_after_first = 0;
    for (int round = 0; round < 5; ++round) {
      std::vector<Allocation> blocks;
      for (std::size_t index = 0; index < 40; ++index)
        blocks.push_back(test.memory.allocate(1 + index * index * 4001, stream));
      test.log.submit(stream, "work");
      blocks.clear();
      check_whole(test.memory);
      if (round == 0) calls_after_first = driver_calls(*test.runtime);
    }
    CHECK(driver_calls(*test.runtime) == calls_after_first);
  });
}

TEST_CASE("memory freed on a busy stream goes to another stream only behind the work") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    for (const std::size_t bytes : {std::size_t{512}, 1_MiB, 30_MiB}) {
      CAPTURE(bytes);
      MemoryTest test(manual_progress(), options);
      const Stream first = test.stream();
      const Stream second = test.stream();
      void* const a = test.memory.allocate_raw(bytes, first);
      test.log.submit(first, "earlier");
      test.memory.deallocate(a);
      const Allocation b = test.memory.allocate(bytes, second);
      CHECK(test.apart_or_in_order(a, bytes, b.data(), bytes, second));
      check_whole(test.memory);
    }
  });
}

TEST_CASE(
    "with no memory left to grow into, memory freed on a busy stream is taken behind its work") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    void* const a = test.memory.allocate_raw(60_MiB, first);
    test.log.submit(first, "earlier");
    test.memory.deallocate(a);
    const Allocation b = test.memory.allocate(60_MiB, second);
    CHECK(test.apart_or_in_order(a, 60_MiB, b.data(), 60_MiB, second));
    check_whole(test.memory);
  });
}

TEST_CASE("the legacy default stream follows the same rule, in both directions") {
  MemoryTest test(small_device(64_MiB, sim::Progress::manual));
  const Stream stream = test.stream();
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(0));
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  SUBCASE("from the default stream") {
    void* const a = test.memory.allocate_raw(60_MiB, legacy);
    test.log.submit(legacy, "earlier");
    test.memory.deallocate(a);
    const Allocation b = test.memory.allocate(60_MiB, stream);
    CHECK(test.apart_or_in_order(a, 60_MiB, b.data(), 60_MiB, stream));
  }
  SUBCASE("to the default stream") {
    void* const a = test.memory.allocate_raw(60_MiB, stream);
    test.log.submit(stream, "earlier");
    test.memory.deallocate(a);
    const Allocation b = test.memory.allocate(60_MiB, legacy);
    CHECK(test.apart_or_in_order(a, 60_MiB, b.data(), 60_MiB, legacy));
  }
  SUBCASE("on the default stream itself, at once") {
    void* const a = test.memory.allocate_raw(1_MiB, legacy);
    test.log.submit(legacy, "earlier");
    test.memory.deallocate(a);
    const Allocation b = test.memory.allocate(1_MiB, legacy);
    CHECK(b.data() == a);
    CHECK_FALSE(test.log.is_done("earlier"));
  }
  check_whole(test.memory);
}

TEST_CASE("memory of a stream without work pending serves another stream before memory grows") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    test.memory.deallocate(test.memory.allocate_raw(32_MiB, first));
    const std::uint64_t reserved = test.counters().bytes_reserved.current;
    const Allocation b = test.memory.allocate(32_MiB, second);
    CHECK(b);
    CHECK(test.counters().bytes_reserved.current == reserved);
    CHECK(test.counters().allocations_grown == 1);
    CHECK(test.counters().blocks_passed_on + test.counters().stream_waits_inserted == 1);
    check_whole(test.memory);
  });
}

TEST_CASE("a recorded stream delays reuse until the work that it held at the free is done") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream own = test.stream();
    const Stream user = test.stream();
    void* const a = test.memory.allocate_raw(32_MiB, own);
    test.memory.record_stream(a, user);
    test.log.submit(user, "earlier");  // after the record, before the free: it counts
    test.memory.deallocate(a);
    CHECK(test.counters().frees_deferred == 1);
    CHECK(test.counters().blocks_pending.current == 1);
    CHECK(test.counters().blocks_allocated.current == 0);
    CHECK(test.counters().bytes_allocated.current == 0);
    CHECK(test.counters().bytes_active.current == 32_MiB);
    check_whole(test.memory);
    test.log.submit(user, "after the free");  // does not count

    const Allocation b = test.memory.allocate(32_MiB, own);
    CHECK(test.apart_or_in_order(a, 32_MiB, b.data(), 32_MiB, own));
    CHECK_FALSE(test.log.is_done("earlier"));
    CHECK(test.counters().frees_reclaimed == 0);

    while (test.simulator.pending_operations(user.ref().native()) > 1) REQUIRE(test.run_next(user));
    CHECK(test.log.is_done("earlier"));
    const Allocation c = test.memory.allocate(32_MiB, own);
    CHECK((b.data() == a || c.data() == a));
    CHECK(test.counters().frees_reclaimed == 1);
    CHECK_FALSE(test.log.is_done("after the free"));
    check_whole(test.memory);
  });
}

TEST_CASE("once a recorded stream's work is done the block is reused, instead of new memory") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream own = test.stream();
    const Stream user = test.stream();
    void* const a = test.memory.allocate_raw(32_MiB, own);
    test.log.submit(user, "work");
    test.memory.record_stream(a, user);
    test.memory.deallocate(a);
    user.ref().sync();
    const Allocation b = test.memory.allocate(32_MiB, own);
    CHECK(b.data() == a);
    CHECK(test.counters().allocations_grown == 1);
    CHECK(test.counters().frees_reclaimed == 1);
    CHECK(test.counters().blocks_pending.current == 0);
    CHECK(test.counters().deferred_free_waits == 0);
    check_whole(test.memory);
  });
}

TEST_CASE("a block recorded on several streams waits for each of them") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const Stream quick = test.stream();
  const Stream slow = test.stream();
  void* const a = test.memory.allocate_raw(4_MiB, own);
  test.log.submit(quick, "quick");
  test.log.submit(slow, "earlier");
  test.memory.record_stream(a, quick);
  test.memory.record_stream(a, slow);
  test.memory.deallocate(a);
  quick.ref().sync();
  const Allocation b = test.memory.allocate(4_MiB, own);
  CHECK(test.apart_or_in_order(a, 4_MiB, b.data(), 4_MiB, own));
  CHECK_FALSE(test.log.is_done("earlier"));
  slow.ref().sync();
  const Allocation c = test.memory.allocate(4_MiB, own);
  CHECK((b.data() == a || c.data() == a));
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.counters().frees_reclaimed == 1);
  check_whole(test.memory);
}

TEST_CASE("recording the block's own stream is no record") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  void* const a = test.memory.allocate_raw(1_MiB, own);
  test.log.submit(own, "work");
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.record_stream(a, own);
  test.memory.deallocate(a);
  CHECK(test.counters().frees_deferred == 0);
  CHECK(test.counters().blocks_pending.current == 0);
  const Allocation b = test.memory.allocate(1_MiB, own);
  CHECK(b.data() == a);
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("a free makes one capture query and one event record for each recorded stream") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const Stream users[] = {test.stream(), test.stream(), test.stream()};
  for (int round = 0; round < 3; ++round) {  // the first one fills the pool of events
    CAPTURE(round);
    Allocation block = test.memory.allocate(1000, own);
    for (const Stream& user : users) {
      block.record_stream(user);
      block.record_stream(user);
    }
    const std::uint64_t calls = calls_beside_context(*test.runtime);
    const std::uint64_t records = driver_calls(*test.runtime, "cuEventRecord");
    const std::uint64_t questions = driver_calls(*test.runtime, "cuStreamIsCapturing");
    block.reset();
    CHECK(driver_calls(*test.runtime, "cuEventRecord") == records + 3);
    CHECK(driver_calls(*test.runtime, "cuStreamIsCapturing") == questions + 3);
    if (round > 0) CHECK(calls_beside_context(*test.runtime) == calls + 6);
    test.simulator.run_all();
    test.memory.trim();
    CHECK(test.counters().blocks_pending.current == 0);
  }
}

TEST_CASE("freeing without a recorded stream makes no driver call and waits for nothing") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream stream = test.stream();
    std::vector<Allocation> blocks;
    for (const std::size_t bytes : {std::size_t{1}, 1_MiB, 25_MiB})
      blocks.push_back(test.memory.allocate(bytes, stream));
    test.log.submit(stream, "work");
    const std::uint64_t calls = driver_calls(*test.runtime);
    blocks.clear();
    CHECK(driver_calls(*test.runtime) == calls);
    CHECK_FALSE(test.log.is_done("work"));
  });
}

TEST_CASE("a record of the legacy default stream is waited for too") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(0));
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    test.log.submit(legacy, "earlier");
  }
  void* const a = test.memory.allocate_raw(4_MiB, own);
  test.memory.record_stream(a, legacy);
  test.memory.deallocate(a);
  CHECK(test.counters().frees_deferred == 1);
  const Allocation b = test.memory.allocate(4_MiB, own);
  CHECK(test.apart_or_in_order(a, 4_MiB, b.data(), 4_MiB, own));
  CHECK_FALSE(test.log.is_done("earlier"));
}

TEST_CASE("a record made in one life of a block does not delay its next life") {
  MemoryTest test(manual_progress());
  const Stream own = test.stream();
  const Stream user = test.stream();
  void* a = test.memory.allocate_raw(1_MiB, own);
  test.memory.record_stream(a, user);
  test.memory.deallocate(a);
  test.simulator.run_all();
  a = test.memory.allocate_raw(1_MiB, own);
  test.log.submit(user, "unrelated");
  test.memory.deallocate(a);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.memory.allocate(1_MiB, own).data() == a);
  CHECK_FALSE(test.log.is_done("unrelated"));
}

TEST_CASE("a block freed on another thread is reused on its stream in order") {
  MemoryTest test(manual_progress());
  const Stream stream = test.stream();
  Allocation block = test.memory.allocate(1_MiB, stream);
  void* const data = block.data();
  test.log.submit(stream, "work");
  std::thread([moved = std::move(block)] {}).join();
  CHECK(test.counters().blocks_allocated.current == 0);
  const Allocation again = test.memory.allocate(1_MiB, stream);
  CHECK(again.data() == data);
  CHECK_FALSE(test.log.is_done("work"));
  check_whole(test.memory);
}

TEST_CASE("a destroyed stream's cached memory serves other streams, behind its work") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream survivor = test.stream();
    void* a = nullptr;
    {
      const Stream doomed = test.stream();
      a = test.memory.allocate_raw(60_MiB, doomed);
      test.log.submit(doomed, "earlier");
      test.memory.deallocate(a);
    }
    check_whole(test.memory);
    const Allocation b = test.memory.allocate(60_MiB, survivor);
    CHECK(test.apart_or_in_order(a, 60_MiB, b.data(), 60_MiB, survivor));
    check_whole(test.memory);
  });
}

TEST_CASE("a live block outlives its stream, and its free waits for what the stream had to do") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream survivor = test.stream();
    Allocation a;
    {
      const Stream doomed = test.stream();
      a = test.memory.allocate(60_MiB, doomed);
      test.log.submit(doomed, "earlier");
    }
    CHECK(test.memory.owns(a.data()));
    CHECK(test.counters().blocks_allocated.current == 1);
    check_whole(test.memory);
    void* const data = a.data();
    a.reset();
    check_whole(test.memory);
    const Allocation b = test.memory.allocate(60_MiB, survivor);
    CHECK(test.apart_or_in_order(data, 60_MiB, b.data(), 60_MiB, survivor));
    check_whole(test.memory);
  });
}

TEST_CASE("a recorded stream may be destroyed before the block is freed: its work is waited for") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream own = test.stream();
    Allocation a = test.memory.allocate(60_MiB, own);
    {
      const Stream user = test.stream();
      a.record_stream(user);
      test.log.submit(user, "earlier");
    }
    void* const data = a.data();
    a.reset();
    check_whole(test.memory);
    const Allocation b = test.memory.allocate(60_MiB, own);
    CHECK(test.apart_or_in_order(data, 60_MiB, b.data(), 60_MiB, own));
    check_whole(test.memory);
  });
}

TEST_CASE(
    "retire_stream makes a foreign stream's memory available before the stream is destroyed") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    Runtime& runtime = *test.runtime;
    const Stream survivor = test.stream();
    CUstream foreign = nullptr;
    {
      const DeviceGuard guard(runtime.devices(), Device::cuda(0));
      REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&foreign, CU_STREAM_NON_BLOCKING, 0) ==
              CUDA_SUCCESS);
    }
    const StreamRef ref = runtime.stream(Device::cuda(0), foreign);
    void* const cached = test.memory.allocate_raw(28_MiB, ref);
    Allocation live = test.memory.allocate(28_MiB, ref);
    test.log.submit(ref, "earlier");
    test.memory.deallocate(cached);
    test.memory.retire_stream(ref);
    check_whole(test.memory);
    {
      const DeviceGuard guard(runtime.devices(), Device::cuda(0));
      REQUIRE(sim::berth_sim_cuStreamDestroy(foreign) == CUDA_SUCCESS);
    }

    const Allocation b = test.memory.allocate(28_MiB, survivor);
    CHECK(test.apart_or_in_order(cached, 28_MiB, b.data(), 28_MiB, survivor));
    void* const data = live.data();
    live.reset();
    check_whole(test.memory);
    const Allocation c = test.memory.allocate(28_MiB, survivor);
    CHECK(test.apart_or_in_order(data, 28_MiB, c.data(), 28_MiB, survivor));
    check_whole(test.memory);
  });
}

TEST_CASE("retiring a stream that the allocator never saw, or of another device, changes nothing") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  const Stream stream = test.stream();
  const Allocation block = test.memory.allocate(1000, stream);
  const Stream never = test.stream();
  const Stream there = test.runtime->create_stream(Device::cuda(1));
  const MemoryCounters before = test.counters();
  test.memory.retire_stream(never);
  test.memory.retire_stream(there);
  CHECK(same_levels(test.counters(), before));
  check_whole(test.memory);
  CHECK(test.memory.allocate(1000, never));
}

TEST_CASE("streams that come and go leave no memory behind") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(256_MiB), options);
    for (int generation = 0; generation < 50; ++generation) {
      const Stream stream = test.stream();
      const Stream user = test.stream();
      const Allocation a = test.memory.allocate(30_MiB, stream);
      const Allocation b = test.memory.allocate(3000, stream);
      a.record_stream(user);
      b.record_stream(user);
    }
    check_whole(test.memory);
    // 60 MiB live at most: were memory lost with its stream, 50 generations would need 1.5 GiB.
    CHECK(test.counters().bytes_reserved.peak <= 128_MiB);
    test.memory.trim();
    CHECK(test.counters().bytes_reserved.current == 0);
  });
}

TEST_CASE("blocks of pooled streams that share a native stream share its order") {
  MemoryTest test(manual_progress());
  StreamPool& pool = test.runtime->streams(Device::cuda(0));
  void* data = nullptr;
  CUstream_st* native = nullptr;
  {
    const StreamLease lease = pool.acquire();
    native = lease.ref().native();
    data = test.memory.allocate_raw(1_MiB, lease);
    test.log.submit(lease, "work");
    test.memory.deallocate(data);
  }
  const StreamLease lease = pool.acquire();
  REQUIRE(lease.ref().native() == native);
  CHECK(test.memory.allocate(1_MiB, lease).data() == data);
  CHECK_FALSE(test.log.is_done("work"));
}

}  // namespace stream_order_contract_test
