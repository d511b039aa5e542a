// SPDX-License-Identifier: Apache-2.0
// The workspaces of handles: which memory they have, and in which order it is used. Work is pending
// throughout, and the simulated driver reports unordered uses.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "device/device_context.hpp"
#include "library/library_fixture.hpp"
#include "support/allocator_checks.hpp"
#include "support/errors.hpp"

namespace handle_workspace_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a handle keeps its workspace from lease to lease on one stream") {
  LibraryTest test(manual_progress());
  FakePool pool(*test.runtime, test.library.options_with_workspace(4_MiB));
  const Stream stream = test.stream();
  void* workspace = nullptr;
  {
    const FakeLease lease = pool.acquire(stream);
    workspace = lease->workspace;
    CHECK(lease->workspace_bytes == 4_MiB);
    test.submit(lease);
  }
  DeviceAllocator& memory = test.runtime->memory(kDevice);
  CHECK(memory.owns(workspace));
  const DeviceGuard guard(test.runtime->devices(), kDevice);
  const std::uint64_t calls = driver_calls(*test.runtime);
  const std::uint64_t questions = driver_calls(*test.runtime, "cuStreamIsCapturing");
  for (int round = 0; round < 10; ++round) {
    const FakeLease lease = pool.acquire(stream);
    REQUIRE(lease->workspace == workspace);
    test.submit(lease);
  }
  CHECK(test.library.workspaces_set == 1);
  CHECK(memory.counters().blocks_allocated.current == 1);
  CHECK(driver_calls(*test.runtime, "cuStreamIsCapturing") == questions + 10);
  CHECK(driver_calls(*test.runtime) == calls + 20);  // and which context is current
  CHECK_FALSE(test.races());
}

TEST_CASE("a workspace moves with its handle, and work on its streams is ordered") {
  LibraryTest test(manual_progress());
  FakePool pool(*test.runtime, test.library.options_with_workspace(40_MiB));
  const Stream streams[] = {test.stream(), test.stream(), test.stream()};
  for (int round = 0; round < 12; ++round) {
    const FakeLease lease = pool.acquire(streams[round % 3]);
    test.submit(lease);
    test.submit(lease);
  }
  CHECK(test.library.creates == 1);
  CHECK(test.library.workspaces_set == 12);
  CHECK(test.runtime->memory(kDevice).counters().blocks_allocated.current == 1);
  CHECK_FALSE(test.races());
}

TEST_CASE("concurrent leases have different workspaces") {
  LibraryTest test(manual_progress());
  FakePool pool(*test.runtime, test.library.options_with_workspace(1_MiB));
  const Stream a = test.stream();
  const Stream b = test.stream();
  for (int round = 0; round < 4; ++round) {
    const FakeLease first = pool.acquire(a);
    const FakeLease second = pool.acquire(round < 2 ? a : b);
    CHECK_FALSE(overlap(first->workspace, 1_MiB, second->workspace, 1_MiB));
    test.submit(first);
    test.submit(second);
  }
  CHECK_FALSE(test.races());
}

TEST_CASE("a workspace released by trim is reused in stream order") {
  LibraryTest test(manual_progress());
  FakePool pool(*test.runtime, test.library.options_with_workspace(40_MiB));
  DeviceAllocator& memory = test.runtime->memory(kDevice);
  const Stream a = test.stream();
  const Stream b = test.stream();
  test.submit(pool.acquire(a));
  CHECK(pool.trim() == 1);
  CHECK(memory.counters().blocks_allocated.current == 0);
  const Allocation block = memory.allocate(40_MiB, b);
  test.submit_write(b, block.data(), block.bytes());
  CHECK_FALSE(test.races());
}

TEST_CASE("a new stream with the handle of a destroyed one gets a new binding and workspace") {
  sim::Config config = manual_progress();
  config.memory = {64_MiB};  // so that all have the same memory one after the other
  LibraryTest test(config);
  FakePool pool(*test.runtime, test.library.options_with_workspace(40_MiB));
  DeviceAllocator& memory = test.runtime->memory(kDevice);
  const Stream other = test.stream();
  // The stream stays here, and is used again as a later one of the same handle would be.
  const Stream owner = test.stream();
  const StreamRef stream = owner;
  for (const bool is_owned : {true, false}) {
    CAPTURE(is_owned);
    { const FakeLease lease = pool.acquire(stream); }
    const int binds = test.library.binds;
    test.submit(pool.acquire(stream));
    REQUIRE(test.library.binds == binds);
    if (is_owned) {
      stream.context().retire_stream(stream.native());  // as a berth::Stream does at its end
    } else {
      pool.retire_stream(stream);
      memory.retire_stream(stream);
    }
    {
      const FakeLease lease = pool.acquire(stream);
      CHECK(test.library.binds == binds + 1);
      CHECK(test.library.workspaces_set == binds + 1);
      CHECK(lease->workspace != nullptr);
      test.submit(lease);
    }
    // A workspace that were still the first stream's would be free once that one's work is done.
    pool.trim();
    const Allocation block = memory.allocate(40_MiB, other);
    test.submit_write(other, block.data(), block.bytes());
  }
  CHECK_FALSE(test.races());
}

TEST_CASE("an idle handle outlives its stream and is reused in order") {
  LibraryTest test(manual_progress());
  FakePool pool(*test.runtime, test.library.options_with_workspace(40_MiB));
  for (int generation = 0; generation < 5; ++generation) {
    const Stream stream = test.stream();
    test.submit(pool.acquire(stream));
  }
  CHECK(test.library.creates == 1);
  CHECK(test.library.binds == 5);
  CHECK_FALSE(test.races());
}

TEST_CASE("with handles that keep memory a stream waits for work of the last lease only") {
  LibraryTest test(manual_progress());
  HandlePoolOptions<FakeHandle> options = test.library.options();
  options.keeps_device_memory = true;
  FakePool pool(*test.runtime, std::move(options));
  const Stream a = test.stream();
  const Stream b = test.stream();
  const Allocation area = test.runtime->memory(kDevice).allocate(1_MiB, a);  // in the handle
  FakeHandle handle = nullptr;
  {
    const FakeLease lease = pool.acquire(a);
    handle = lease;
    test.submit_write(a, area.data(), area.bytes());
  }
  test.log.submit(a, "after the lease");
  {
    const FakeLease lease = pool.acquire(b);
    CHECK(lease.get() == handle);
    test.submit_write(b, area.data(), area.bytes());
    test.log.submit(b, "on the other stream");
  }
  {
    const FakeLease lease = pool.acquire(a);  // and back
    test.submit_write(a, area.data(), area.bytes());
  }
  test.run_stream(b);
  CHECK_FALSE(test.log.is_done("on the other stream"));
  REQUIRE(test.run_next(a));
  REQUIRE(test.run_next(a));
  test.run_stream(b);
  CHECK(test.log.is_done("on the other stream"));
  CHECK_FALSE(test.log.is_done("after the lease"));
  CHECK_FALSE(test.races());
  CHECK(test.library.creates == 1);
}

TEST_CASE("handles that keep memory are ordered behind a destroyed stream") {
  LibraryTest test(manual_progress());
  HandlePoolOptions<FakeHandle> options = test.library.options();
  options.keeps_device_memory = true;
  FakePool pool(*test.runtime, std::move(options));
  const Stream owner = test.stream();
  const Allocation area = test.runtime->memory(kDevice).allocate(1_MiB, owner);
  for (int generation = 0; generation < 3; ++generation) {
    const Stream stream = test.stream();
    test.runtime->join(stream, {owner});
    const FakeLease lease = pool.acquire(stream);
    test.submit_write(stream, area.data(), area.bytes());
  }
  CHECK(test.library.creates == 1);
  CHECK_FALSE(test.races());
}

}  // namespace handle_workspace_test
