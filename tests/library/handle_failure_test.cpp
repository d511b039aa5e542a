// SPDX-License-Identifier: Apache-2.0
// Failures of the library, the driver or the process: no handle is lost, and the next lease works.
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "library/library_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace handle_failure_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string failed_function(FakePool& pool, StreamRef stream) {
  try {
    static_cast<void>(pool.acquire(stream));
  } catch (const LibraryFailure& failure) {
    return failure.function;
  }
  return "none";
}

}  // namespace

TEST_CASE("exceptions of the library's functions reach the caller, and no handle is lost") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options_with_workspace(1_MiB));
  DeviceAllocator& memory = test.runtime->memory(kDevice);
  const Stream a = test.stream();
  const Stream b = test.stream();
  for (const bool has_idle : {false, true}) {
    for (const std::string function : {"create", "bind", "set_workspace"}) {
      if (has_idle && function == "create") continue;
      CAPTURE(has_idle);
      CAPTURE(function);
      pool.trim();
      if (has_idle) const FakeLease idle = pool.acquire(b);
      test.library.fail_next(function);
      CHECK(failed_function(pool, a) == function);
      CHECK(test.library.live() == 0);  // a handle with which the library has failed is gone
      CHECK(pool.counters().live == 0);
      CHECK(memory.counters().blocks_allocated.current == 0);
      CHECK(current_context() == nullptr);
      const FakeLease next = pool.acquire(a);
      CHECK(next->stream == a.ref());
      CHECK(next->workspace != nullptr);
    }
  }
}

TEST_CASE("a handle without a workspace for lack of memory is kept and leased later") {
  sim::Config config;
  config.memory = {64_MiB};
  LibraryTest test(config);
  DeviceAllocator& memory = test.runtime->memory(kDevice);
  const Stream a = test.stream();
  FakePool pool(*test.runtime, test.library.options_with_workspace(40_MiB));
  {
    const Allocation other = memory.allocate(40_MiB, a);
    message_of<OutOfMemory>([&] { return pool.acquire(a); });
  }
  CHECK(pool.counters().idle == 1);
  CHECK(test.library.binds == 0);
  const FakeLease lease = pool.acquire(a);
  CHECK(lease->stream == a.ref());
  CHECK(lease->workspace != nullptr);
  CHECK(test.library.creates == 1);
}

TEST_CASE("a handle without a workspace on another stream has one again on its own stream") {
  LibraryTest test;
  DeviceAllocator& memory = test.runtime->memory(kDevice);
  const Stream a = test.stream();
  const Stream b = test.stream();
  FakePool pool(*test.runtime, test.library.options_with_workspace(4_MiB));
  { const FakeLease lease = pool.acquire(a); }
  {
    MemoryPool small = memory.create_pool({.name = "small"});
    small.set_limits({.bytes_reserved_max = 2_MiB});
    const PoolScope scope = PoolScope::on_stream(small, b);
    message_of<OutOfMemory>([&] { return pool.acquire(b); });
  }
  CHECK(pool.counters().idle == 1);
  for (const StreamRef stream : {a.ref(), b.ref()}) {
    const FakeLease lease = pool.acquire(stream);
    CHECK(lease->stream == stream);
    CHECK(lease->workspace != nullptr);
  }
  CHECK(test.library.creates == 1);
}

TEST_CASE("an exception of destroy() is reported, and the handle is dropped") {
  LibraryTest test;
  test.errors_expected = true;
  const Stream stream = test.stream();
  {
    FakePool pool(*test.runtime, test.library.options());
    const auto idle = [&] { const FakeLease lease = pool.acquire(stream); };
    idle();
    test.library.fail_next("destroy");
    CHECK(pool.trim() == 1);
    CHECK(test.reports.mention(
        "fake handles of cuda:0: destroying one: an exception of another type"));
    idle();
    test.library.on_destroy = [] { throw std::runtime_error("status 7"); };
    CHECK(pool.trim() == 1);
    CHECK(test.reports.mention("fake handles of cuda:0: destroying one: status 7"));
    test.library.on_destroy = nullptr;
    idle();
    CHECK(pool.counters().live == 1);
  }
  CHECK(test.library.live() == 0);
  CHECK(test.reports.count(Severity::error) == 2);
}

TEST_CASE("in a forked child handles are refused, and the library is not called") {
  LibraryTest test;
  const Stream stream = test.stream();
  auto pool = std::make_unique<FakePool>(*test.runtime, test.library.options_with_workspace(512));
  std::optional<FakeLease> held = pool->acquire(stream);
  { const FakeLease idle = pool->acquire(stream); }
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) const FakeLease lease = pool->acquire(stream);
  });
  for (int round = 0; round < 20; ++round) {
    const auto code = exit_code_of([&] {
      alarm(kHangSeconds);  // ends a child that waits
      bool refused = is_refused_after_fork([&] { static_cast<void>(pool->acquire(stream)); });
      refused &= is_refused_after_fork([&] { pool->trim(); });
      refused &= is_refused_after_fork([&] { static_cast<void>(pool->counters()); });
      pool->retire_stream(stream);
      held.reset();
      pool.reset();
      _exit(refused && test.library.destroys == 0 ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
  stop = true;
  busy.join();
}

TEST_CASE("handles are not destroyed after the driver has shut down") {
  constexpr int kLibraryCalled = 3;
  const auto code = exit_code_of([&] {
    alarm(kHangSeconds);
    // Destroyed in the opposite order, as the process exits.
    static std::optional<FakeLibrary> library;
    static std::optional<Runtime> runtime;
    static std::optional<FakePool> pool;
    static std::optional<sim::Simulator> goes_first;
    library.emplace();
    goes_first.emplace(sim::Config{});
    RuntimeOptions options;
    options.driver = "sim";
    runtime.emplace(std::move(options));
    pool.emplace(*runtime, library->options_with_workspace(1_MiB));
    static const Stream stream = runtime->create_stream(kDevice);
    { const FakeLease lease = pool->acquire(stream); }
    library->on_destroy = [] { _exit(kLibraryCalled); };
    return 0;
  });
  CHECK(code == 0);
}

TEST_CASE("handles on lease at the end of the pool are reported and not destroyed") {
  LibraryTest test;
  test.errors_expected = true;
  const Stream stream = test.stream();
  auto pool = std::make_unique<FakePool>(*test.runtime, test.library.options());
  alignas(FakeLease) std::array<std::byte, sizeof(FakeLease)> never_ends;
  ::new (never_ends.data()) FakeLease(pool->acquire(stream));
  pool.reset();
  CHECK(test.library.destroys == 0);
  CHECK(test.reports.mention("fake handles of cuda:0: 1 still on lease, never destroyed"));
}

}  // namespace handle_failure_test
