// SPDX-License-Identifier: Apache-2.0
// Bug classes known from other allocators, with pools: the pool of a block, its lifetime, the
// extent of a scope, and captures of other threads.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "pool/pools_fixture.hpp"
#include "support/child_process.hpp"
#include "support/device_bytes.hpp"
#include "support/errors.hpp"
#include "support/foreign_stream.hpp"
#include "support/second_thread.hpp"

namespace known_bugs_pools_test {

using namespace berth;
using namespace berth::test;

namespace {

bool is_free(const MemoryPool& pool) {
  return pool.counters().blocks_allocated.current == 0;
}

}  // namespace

// PyTorch 146431, 161193
TEST_CASE("a pool may be closed before its blocks, which keep their bytes until freed") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    std::vector<Allocation> blocks;
    {
      MemoryPool pool = test.memory.create_pool({.name = "pool"});
      for (int block = 0; block < 3; ++block) blocks.push_back(pool.allocate(1_MiB, stream));
    }
    for (const Allocation& block : blocks) {
      test.runtime->copier().fill_async(block.data(), 7, block.bytes(), stream);
    }
    const Allocation others = test.memory.allocate(4_MiB, stream);
    test.memory.trim();
    for (const Allocation& block : blocks) {
      CHECK(test.memory.owns(block.data()));
      CHECK(holds(test.simulator, address_of(block.data()), 1_MiB, 7));
    }
    blocks[0].reset();
    test.memory.deallocate(blocks[1].release());
    test.memory.validate();
    CHECK(test.memory.pool_snapshots().size() == 1);
    blocks[2].reset();
    MemoryPool next = test.memory.create_pool({.name = "next"});
    CHECK(test.memory.pool_snapshots().size() == 1);
  });
}

// PyTorch 153990, 154042
TEST_CASE("an allocator refuses blocks of another allocator") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  DeviceAllocator& other_device = test.runtime->memory(Device::cuda(1));
  const Stream stream = test.stream();
  MemoryPool red = test.memory.create_pool({.name = "red"});
  MemoryPool blue = test.memory.create_pool({.name = "blue"});
  MemoryPool elsewhere = other_device.create_pool({.name = "red"});
  const Allocation of_red = red.allocate(1_MiB, stream);
  const Allocation of_device = test.memory.allocate(1_MiB, stream);
  const auto refuse = [](const auto& action) { message_of<InvalidArgument>(action); };
  refuse([&] { blue.deallocate(of_red.data()); });
  refuse([&] { blue.record_stream(of_red.data(), stream); });
  refuse([&] { red.deallocate(of_device.data()); });
  refuse([&] { elsewhere.deallocate(of_red.data()); });
  refuse([&] { other_device.deallocate(of_red.data()); });
  refuse([&] { test.runtime->pinned_memory().deallocate(of_red.data()); });
  refuse([&] { red.deallocate(static_cast<char*>(of_red.data()) + kBlockAlignment); });
  CHECK(red.counters().blocks_allocated.current == 1);
  CHECK(test.counters().blocks_allocated.current == 1);
  void* const twice = red.allocate_raw(1_MiB, stream);
  test.memory.deallocate(twice);
  refuse([&] { test.memory.deallocate(twice); });
  refuse([&] { red.deallocate(twice); });
  red.validate();
}

// PyTorch 149802
TEST_CASE("the inner of nested scopes applies, then the outer one again") {
  MemoryTest test;
  const Stream stream = test.stream();
  std::vector<MemoryPool> pools;
  for (const char* name : {"a", "b", "c"}) pools.push_back(test.memory.create_pool({.name = name}));
  const auto serves = [&](std::size_t pool) {
    return pools[pool].owns(test.memory.allocate(4096, stream).data());
  };
  const PoolScope a = PoolScope::on_this_thread(pools[0]);
  {
    const PoolScope b = PoolScope::on_stream(pools[1], stream);
    {
      const PoolScope c = PoolScope::on_this_thread(pools[2]);
      CHECK(serves(2));
      const PoolScope again = PoolScope::on_this_thread(pools[0]);
      CHECK(serves(0));
    }
    CHECK(serves(1));
  }
  CHECK(serves(0));
}

TEST_CASE("a scope keeps its pool open without a handle, also if moved") {
  MemoryTest test;
  const Stream stream = test.stream();
  std::optional<MemoryPool> pool = test.memory.create_pool({.name = "pool"});
  auto scope = std::make_unique<PoolScope>(PoolScope::on_this_thread(*pool));
  pool.reset();
  Allocation block = test.memory.allocate(2_MiB, stream);
  CHECK(test.counters().blocks_allocated.current == 0);
  scope = std::make_unique<PoolScope>(std::move(*scope));
  const Allocation more = test.memory.allocate(2_MiB, stream);
  CHECK(test.counters().blocks_allocated.current == 0);
  scope.reset();
  CHECK(test.memory.pool_snapshots().size() == 1);
  const Allocation own = test.memory.allocate(2_MiB, stream);
  CHECK(test.counters().blocks_allocated.current == 1);
}

// PyTorch 169699
TEST_CASE("threads with pools of their own get memory of their own pools") {
  MemoryTest test(small_device(256_MiB, sim::Progress::random));
  constexpr int kThreads = 4;
  std::atomic<int> strays = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      const Stream stream = test.stream();
      for (int round = 0; round < 30; ++round) {
        MemoryPool pool = test.memory.create_pool({.name = std::to_string(number)});
        std::vector<Allocation> blocks;
        {
          const PoolScope scope = PoolScope::on_this_thread(pool);
          for (std::size_t block = 1; block < 8; ++block) {
            blocks.push_back(test.memory.allocate(block * 70'000, stream));
            strays += !pool.owns(blocks.back().data());
          }
        }
        blocks.push_back(test.memory.allocate(4096, stream));
        strays += pool.owns(blocks.back().data());
        if (round % 3 != 0) blocks.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(strays == 0);
  test.memory.trim();
  CHECK(test.memory.pool_snapshots().empty());
  test.memory.validate();
}

// PyTorch 192188
TEST_CASE("a pool of one device serves no stream of another, and no request of it") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  DeviceAllocator& other = test.runtime->memory(Device::cuda(1));
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Stream foreign = test.runtime->create_stream(Device::cuda(1));
  message_of<InvalidArgument>([&] { return pool.allocate(512, foreign); });
  message_of<InvalidArgument>(
      [&] { return pool.allocate(512, test.runtime->default_stream(Device::cuda(1))); });
  const PoolScope thread = PoolScope::on_this_thread(pool);
  const PoolScope legacy =
      PoolScope::on_stream(pool, test.runtime->default_stream(Device::cuda(0)));
  CHECK_FALSE(pool.owns(other.allocate(512, foreign).data()));
  // The legacy default streams of both devices have one handle.
  const Allocation block = other.allocate(512, test.runtime->default_stream(Device::cuda(1)));
  CHECK_FALSE(pool.owns(block.data()));
  CHECK(pool.owns(test.memory.allocate(512, test.runtime->default_stream(Device::cuda(0))).data()));
}

// PyTorch 180395, 159674
TEST_CASE("after an error during a capture pools allocate, close and capture again") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.segment_bytes = 2_MiB;
    PoolsTest test(options);
    const Stream stream = test.stream();
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      std::optional<MemoryPool> pool =
          test.memory.create_pool({.name = "graph", .for_graphs = true});
      test.begin_capture(stream);
      Allocation block = pool->allocate(2_MiB, stream);
      message_of<OutOfMemory>([&] { return pool->allocate(63_MiB, stream); });
      message_of<InvalidArgument>([&] { return test.memory.allocate(2_MiB, stream); });
      {
        const ContextScope scope(test.context);
        CHECK(test.driver.try_stream_query(stream.ref().native()) != CUDA_SUCCESS);
      }
      block.reset();
      if (round == 1) pool.reset();  // with the broken capture still under way
      CHECK_FALSE(test.end_capture(stream));
      if (pool) {
        test.begin_capture(stream);
        block = pool->allocate(2_MiB, stream);
        CHECK(test.end_capture(stream));
        block.reset();
        pool->validate();
      }
      pool.reset();
      test.memory.trim();
      CHECK(test.memory.pool_snapshots().empty());
      CHECK(test.used() == 0);
      { const Allocation all = test.memory.allocate(60_MiB, stream); }
      test.memory.trim();
    }
  });
}

TEST_CASE("pools are created and closed although one that was closed keeps its memory") {
  PoolsTest test;
  const StreamRef foreign = disown(test.stream());  // its pool waits for the whole device
  const Stream captured = test.stream();
  MemoryPool graphs = test.memory.create_pool({.name = "graphs", .for_graphs = true});
  std::optional<MemoryPool> first = test.memory.create_pool({.name = "first"});
  std::optional<MemoryPool> second = test.memory.create_pool({.name = "second"});
  { const Allocation block = first->allocate(4_MiB, foreign); }
  test.log.submit(foreign, "work");
  test.begin_capture(captured);
  { const Allocation block = graphs.allocate(4_MiB, captured); }
  first.reset();
  const std::uint64_t used = test.used();
  second.reset();
  CHECK(test.memory.create_pool({.name = "third"}).name() == "cuda:0/third");
  CHECK(test.used() == used);
  CHECK(test.end_capture(captured));
  test.simulator.run_all();
  test.memory.trim();
  CHECK(test.used() < used);
  destroy_disowned(foreign);
}

// CUB asks events under its lock, whatever is being captured.
TEST_CASE("no pool queries, marks or waits for captured streams") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.segment_bytes = 2_MiB;
    PoolsTest test(options);
    const Stream captured = test.stream();
    const Stream forked = test.stream();
    const Stream other = test.stream();
    MemoryPool graphs = test.memory.create_pool({.name = "graph", .for_graphs = true});
    std::optional<MemoryPool> pool = test.memory.create_pool({.name = "pool"});
    { const Allocation cached = pool->allocate(4_MiB, captured); }
    { const Allocation cached = test.memory.allocate(4_MiB, captured); }
    {
      const Allocation pending = pool->allocate(4_MiB, other);
      pending.record_stream(captured);
      test.log.submit(captured, "use");
    }
    test.begin_capture(captured);
    {
      const ContextScope scope(test.context);
      const EventLease mark = test.events.acquire();
      mark->record(captured);
      forked.ref().wait(mark);
    }
    Allocation mine = graphs.allocate(4_MiB, captured);
    {
      const Allocation block = graphs.allocate(4_MiB, forked);
      block.record_stream(captured);
    }
    SecondThread second;
    second.run([&] {
      { const Allocation large = test.memory.allocate(24_MiB, other); }
      CHECK_FALSE(test.memory.try_allocate(60_MiB, other).ok());
      test.memory.trim();
      test.memory.release_unused({});
      pool->trim();
      graphs.trim();
      test.memory.set_limits({});
      const MemoryPool made = test.memory.create_pool({.name = "made"});
      pool.reset();
      test.memory.validate();
    });
    {
      const ContextScope scope(test.context);
      const EventLease mark = test.events.acquire();
      mark->record(forked);
      captured.ref().wait(mark);
    }
    CHECK(test.end_capture(captured));
    mine.reset();
    CHECK(is_free(graphs));
  });
}

TEST_CASE("the ladder on the legacy default stream breaks no capture of blocking streams") {
  PoolsTest test;
  const Stream captured(test.context, {.blocks_with_legacy_default = true});
  const Stream other = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  { const Allocation cached = pool.allocate(8_MiB, test.legacy_stream()); }
  { const Allocation cached = test.memory.allocate(8_MiB, test.legacy_stream()); }
  test.begin_capture(captured, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK_FALSE(test.memory.try_allocate(60_MiB, other).ok());
  test.memory.trim();
  CHECK_FALSE(pool.try_allocate(60_MiB, test.legacy_stream()).ok());
  CHECK(test.end_capture(captured));
  CHECK(test.memory.try_allocate(60_MiB, other).ok());
}

TEST_CASE("pools that many threads create and close leave no memory") {
  MemoryTest test(small_device(256_MiB, sim::Progress::random));
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      MemoryPool pool = test.memory.create_pool({.name = "pool"});
      for (int round = 0; round < 60; ++round) {
        const Stream stream = test.stream();
        std::vector<Allocation> blocks;
        const PoolScope scope = PoolScope::on_stream(pool, stream);
        for (std::size_t block = 1; block < 5; ++block) {
          blocks.push_back(test.memory.allocate(block * 100'000, stream));
        }
        if (number == 0 && round % 8 == 0) {
          blocks.clear();
          pool.sleep(SleepContent::keep);
          test.memory.trim();
          pool.wake();
        }
        if (number == 1) static_cast<void>(test.memory.pool_snapshots());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  test.memory.trim();
  CHECK(test.memory.pool_snapshots().empty());
  CHECK(test.simulator.device_bytes_used(0) == 0);
}

}  // namespace known_bugs_pools_test
