// SPDX-License-Identifier: Apache-2.0
// Pools, scopes and streams are created and destroyed on several threads at once. Also run under
// the thread sanitizer.
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "memory/memory_fixture.hpp"

namespace pools_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kRounds = 150;

template <class Action>
void on_threads(int count, const Action& action) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread)
    threads.emplace_back([&, thread] { action(thread); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("pools are made and closed while streams are destroyed and others allocate") {
  MemoryTest test(small_device(256_MiB));
  on_threads(3, [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const Stream stream = test.stream();
      if (thread == 0) {
        MemoryPool pool = test.memory.create_pool({.name = "passing"});
        const Allocation block = pool.allocate(3_MiB, stream);
        block.record_stream(stream);
      } else {
        const Allocation block = test.memory.allocate(1_MiB, stream);
      }
    }
  });
  CHECK(test.memory.pool_snapshots().empty());
  test.memory.validate();
}

TEST_CASE("scopes open and close while others allocate through them") {
  MemoryTest test(small_device(256_MiB));
  const Stream shared = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  std::atomic<std::uint64_t> in_pool = 0;
  on_threads(3, [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      if (thread == 0) {
        const auto scope = PoolScope::on_stream(pool, shared);
        in_pool += pool.owns(test.memory.allocate(4096, shared).data()) ? 1 : 0;
      } else {
        const Allocation block = test.memory.allocate(4096, shared);
      }
    }
  });
  CHECK(in_pool == kRounds);
  test.memory.validate();
}

TEST_CASE("a pool sleeps and wakes while other threads allocate from it and free") {
  MemoryTest test(small_device(256_MiB));
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Stream stream = test.stream();
  const std::array<Stream, 2> streams{test.stream(), test.stream()};
  std::atomic<int> at_work = 2;
  std::atomic<std::uint64_t> refused = 0;
  on_threads(3, [&](int thread) {
    if (thread == 0) {
      while (at_work > 0) {
        pool.sleep();
        pool.wake();
      }
      return;
    }
    const Stream& own = streams[static_cast<std::size_t>(thread - 1)];
    std::vector<Allocation> live;
    for (int round = 0; round < 20 * kRounds; ++round) {
      try {
        live.push_back(pool.allocate(std::size_t(1 + round % 7) * 300'000, own));
      } catch (const InvalidArgument&) {
        ++refused;  // asleep
      }
      if (live.size() > 8) live.erase(live.begin());
    }
    --at_work;
  });
  pool.validate();
  CHECK(find_discrepancies(pool.snapshot()).empty());
}

TEST_CASE("two pools that reclaim from each other at once do not deadlock") {
  MemoryTest test(small_device(64_MiB));
  std::array<MemoryPool, 2> pools{test.memory.create_pool({.name = "red"}),
                                  test.memory.create_pool({.name = "blue"})};
  on_threads(2, [&](int thread) {
    const Stream stream = test.stream();
    MemoryPool& pool = pools[static_cast<std::size_t>(thread)];
    for (int round = 0; round < kRounds; ++round) {
      const Result<Allocation> block = pool.try_allocate(40_MiB, stream);
      CHECK((block.ok() || block.error().code() == Errc::out_of_memory));
    }
  });
  for (const MemoryPool& pool : pools) pool.validate();
}

}  // namespace pools_threads_test
