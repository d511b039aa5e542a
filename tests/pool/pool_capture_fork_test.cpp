// SPDX-License-Identifier: Apache-2.0
// Pools during captures of other threads, and after a fork.
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "memory/background_thread.hpp"
#include "memory/memory_fixture.hpp"
#include "pool/pools_fixture.hpp"
#include "support/child_process.hpp"
#include "support/second_thread.hpp"

namespace pool_capture_fork_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("wake() breaks no capture of another thread") {
  for (const SleepContent content : {SleepContent::discard, SleepContent::keep}) {
    for (const bool blocks_with_legacy_default : {false, true}) {
      CAPTURE(content == SleepContent::keep);
      CAPTURE(blocks_with_legacy_default);
      PoolsTest test;
      const Stream captured(test.context,
                            {.blocks_with_legacy_default = blocks_with_legacy_default});
      const Stream stream = test.stream();
      MemoryPool pool = test.memory.create_pool({.name = "pool"});
      const Allocation block = pool.allocate(2_MiB, stream);
      pool.sleep(content);
      test.begin_capture(captured);
      SecondThread second;
      bool failed = false;
      second.run([&] { failed = throws([&] { pool.wake(); }); });
      CHECK_FALSE(failed);
      CHECK(test.end_capture(captured));
      CHECK(test.simulator.take_findings().empty());
    }
  }
}

TEST_CASE("a forked child drops the background release thread") {
  std::atomic<int> releases = 0;
  auto release =
      std::make_unique<BackgroundThread>([&] { ++releases; }, std::chrono::milliseconds(10));
  while (releases == 0) std::this_thread::yield();  // from now on it mostly waits
  bool hangs = false;
  for (int round = 0; round < 20 && !hangs; ++round) {
    const auto code = exit_code_of([&] {
      std::signal(SIGALRM, SIG_DFL);
      alarm(kHangSeconds);
      release.reset();
      _exit(0);
      return 0;
    });
    hangs = code != 0;
  }
  CHECK_FALSE(hangs);
}

TEST_CASE("an allocator that is destroyed in a forked child calls no driver") {
  auto test = std::make_unique<PoolsTest>();
  const Stream stream = test->stream();
  auto memory =
      std::make_unique<DeviceAllocator>(test->context, test->events, DeviceAllocatorOptions{});
  std::optional<MemoryPool> pool = memory->create_pool({.name = "pool"});
  { const Allocation cached = pool->allocate(2_MiB, stream); }
  const auto code = exit_code_of([&] {
    std::signal(SIGALRM, SIG_DFL);
    alarm(kHangSeconds);
    const std::uint64_t calls = test->driver_calls();
    pool.reset();
    memory.reset();
    _exit(test->driver_calls() == calls ? 0 : 1);
    return 0;
  });
  CHECK(code == 0);
  pool.reset();
  memory.reset();
}

TEST_CASE("in a forked child no function of a pool waits") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  std::optional<PoolScope> scope = PoolScope::on_stream(pool, stream);
  void* const live = test.memory.allocate_raw(2_MiB, stream);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    while (!stop) test.memory.deallocate(test.memory.allocate_raw(4096, stream));
  });
  threads.emplace_back([&] {
    while (!stop) static_cast<void>(test.memory.pool_snapshots());
  });
  bool hangs = false;
  for (int round = 0; round < 200 && !hangs; ++round) {
    const auto code = exit_code_of([&] {
      std::signal(SIGALRM, SIG_DFL);
      alarm(kHangSeconds);
      throws([&] { return test.memory.allocate_raw(512, stream); });
      test.memory.deallocate(live);
      throws([&] { static_cast<void>(pool.is_asleep()); });
      throws([&] { static_cast<void>(test.memory.pool_snapshots()); });
      throws([&] { return test.memory.sleep("pool"); });
      throws([&] { static_cast<void>(test.memory.create_pool({.name = "pool"})); });
      static_cast<void>(test.memory.owns(live));
      test.memory.retire_stream(stream);
      scope.reset();
      _exit(0);
      return 0;
    });
    hangs = code != 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  test.memory.deallocate(live);
  CHECK_FALSE(hangs);
}

TEST_CASE("after a limit is lowered, other pools return the excess") {
  for (const bool wakes : {false, true}) {
    CAPTURE(wakes);
    MemoryTest test(small_device(64_MiB));
    const Stream stream = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    const Allocation block = pool.allocate(4_MiB, stream);
    if (wakes) pool.sleep();
    { const Allocation cached = test.memory.allocate(40_MiB, stream); }
    test.memory.set_limits({.bytes_reserved_max = 20_MiB});
    if (wakes) {
      CHECK_FALSE(throws([&] { pool.wake(); }));
    } else {
      CHECK(pool.try_allocate(4_MiB, stream).ok());
    }
  }
}

TEST_CASE("a pool that is short of memory waits for deferred frees of others") {
  PoolsTest test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  {
    const Allocation pending = test.memory.allocate(40_MiB, own);
    pending.record_stream(user);
    test.log.submit(user, "use");
  }
  CHECK(pool.try_allocate(40_MiB, own).ok());
}

}  // namespace pool_capture_fork_test
