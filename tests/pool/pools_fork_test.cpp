// SPDX-License-Identifier: Apache-2.0
// A process with private pools, scopes and a background thread is forked while another thread uses
// all of them. The child must not wait for locks that are never released, nor call the driver.
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace pools_fork_test {

using namespace berth;
using namespace berth::test;

namespace {

DeviceAllocatorOptions with_background() {
  DeviceAllocatorOptions options;
  options.release_unused_after = std::chrono::milliseconds(1);
  return options;
}

struct BusyPools : MemoryTest {
  BusyPools()
      : MemoryTest(small_device(256_MiB), with_background()),
        own(stream()),
        pool(memory.create_pool({.name = "pool"})),
        live(pool->allocate(1_MiB, own)) {
    thread = std::thread([this] {
      while (!stop) {
        MemoryPool passing = memory.create_pool({.name = "passing"});
        const auto scope = PoolScope::on_stream(passing, own);
        { const Allocation block = memory.allocate(3_MiB, own); }
        memory.trim();
      }
    });
  }
  ~BusyPools() {
    stop = true;
    thread.join();
  }

  Stream own;
  std::optional<MemoryPool> pool;
  Allocation live;
  std::atomic<bool> stop = false;
  std::thread thread;
};

}  // namespace

TEST_CASE_FIXTURE(BusyPools, "in a forked child pools refuse at once, or do nothing") {
  std::optional<PoolScope> scope = PoolScope::on_this_thread(*pool);
  for (int round = 0; round < 20; ++round) {
    const auto code = exit_code_of([&] {
      alarm(kHangSeconds);  // ends a child that waits
      bool refused = is_refused_after_fork([&] { (void)memory.create_pool({.name = "child"}); });
      refused &= is_refused_after_fork([&] { (void)memory.allocate(1_MiB, own); });
      refused &= is_refused_after_fork([&] { (void)pool->allocate(1_MiB, own); });
      refused &= is_refused_after_fork([&] { (void)PoolScope::on_this_thread(*pool); });
      refused &= is_refused_after_fork([&] { memory.set_limits({}); });
      refused &= is_refused_after_fork([&] { memory.set_on_pressure(nullptr); });
      refused &= is_refused_after_fork([&] { pool->set_limits({}); });
      refused &= is_refused_after_fork([&] { memory.trim(); });
      refused &= is_refused_after_fork([&] { memory.release_unused(std::chrono::seconds(1)); });
      refused &= is_refused_after_fork([&] { memory.sleep("pool"); });
      refused &= is_refused_after_fork([&] { pool->sleep(); });
      refused &= is_refused_after_fork([&] { pool->wake(); });
      refused &= is_refused_after_fork([&] { (void)memory.pool_snapshots(); });
      refused &= !memory.owns(live.data()) && !pool->owns(live.data());
      memory.retire_stream(own);
      memory.deallocate(live.data());
      memory.deallocate(live.data(), own);
      live.reset();
      scope.reset();
      pool.reset();
      _exit(refused ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
  scope.reset();
  CHECK(pool->allocate(1_MiB, own).data() != nullptr);  // the parent goes on as before
}

}  // namespace pools_fork_test
