// SPDX-License-Identifier: Apache-2.0
// Which handle a lease gets, and at what cost.
#include "berth/handle_pool.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "library/library_fixture.hpp"
#include "support/errors.hpp"

namespace handle_pool_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  return config;
}

}  // namespace

TEST_CASE("the next lease on a stream reuses the bound handle without library or driver calls") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  const Stream stream = test.stream();
  const FakeHandle first = pool.acquire(stream).get();
  CHECK(first->stream == stream.ref());
  const std::uint64_t calls = driver_calls(*test.runtime);
  for (int round = 0; round < 100; ++round) {
    const FakeLease lease = pool.acquire(stream);
    REQUIRE(lease.get() == first);
  }
  CHECK(test.library.creates == 1);
  CHECK(test.library.binds == 1);
  CHECK(driver_calls(*test.runtime) == calls);
  const HandleCounters counters = pool.counters();
  CHECK(counters.created == 1);
  CHECK(counters.binds == 1);
  CHECK(counters.live == 1);
  CHECK(counters.idle == 1);
}

TEST_CASE("leases held at once have different handles, each bound to its stream") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  const Stream a = test.stream();
  const Stream b = test.stream();
  std::set<FakeHandle> handles;
  std::vector<FakeLease> leases;
  for (const StreamRef stream : {a.ref(), b.ref(), a.ref()}) {
    leases.push_back(pool.acquire(stream));
    handles.insert(leases.back());
    CHECK(leases.back()->stream == stream);
  }
  CHECK(handles.size() == 3);
  CHECK(pool.counters().live == 3);
  CHECK(pool.counters().idle == 0);
  leases.clear();
  CHECK(pool.counters().idle == 3);
}

TEST_CASE("an idle handle bound to the stream is preferred, whichever was returned last") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  const Stream streams[] = {test.stream(), test.stream(), test.stream()};
  FakeHandle of_stream[3];
  {
    std::vector<FakeLease> leases;
    for (const Stream& stream : streams) leases.push_back(pool.acquire(stream));
    for (std::size_t index = 0; index < 3; ++index) of_stream[index] = leases[index];
  }
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t index : {1, 0, 2}) {
      const FakeLease lease = pool.acquire(streams[index]);
      CHECK(lease.get() == of_stream[index]);
    }
  }
  CHECK(test.library.binds == 3);
}

TEST_CASE("another stream gets the handle that has been idle longest, rebound") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  const Stream a = test.stream();
  const Stream b = test.stream();
  std::optional<FakeLease> of_a = pool.acquire(a);
  std::optional<FakeLease> of_b = pool.acquire(b);
  const FakeHandle longest = *of_b;
  of_b.reset();
  of_a.reset();
  const Stream c = test.stream();
  const FakeLease lease = pool.acquire(c);
  CHECK(lease.get() == longest);
  CHECK(lease->stream == c.ref());
  CHECK(test.library.creates == 2);
  CHECK(test.library.binds == 3);
  const FakeLease again = pool.acquire(b);  // which has lost its handle
  CHECK(again->stream == b.ref());
  CHECK(test.library.binds == 4);
}

TEST_CASE("each device has its own handles, whatever context is current") {
  LibraryTest test(two_devices());
  FakePool pool(*test.runtime, test.library.options());
  const Stream here = test.stream();
  const Stream there = test.stream(Device::cuda(1));
  const FakeHandle of_here = pool.acquire(here).get();
  {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    const CUcontext before = current_context();
    test.library.on_create = [&] {  // leaves another context than it found
      REQUIRE(sim::berth_sim_cuCtxSetCurrent(before) == CUDA_SUCCESS);
    };
    const FakeLease lease = pool.acquire(there);
    CHECK(lease.get() != of_here);
    CHECK(lease->made_in != of_here->made_in);
    CHECK(current_context() == before);
  }
  test.library.on_create = nullptr;
  CHECK(current_context() == nullptr);
  CHECK(pool.acquire(here).get() == of_here);
  CHECK(pool.counters().live == 2);
}

TEST_CASE("handles may be pointers, numbers or movable types with a destructor") {
  LibraryTest test;
  const Stream stream = test.stream();

  int last = 6;
  std::vector<int> destroyed;
  {
    HandlePool<int> numbers(*test.runtime,
                            {.name = "numbers",
                             .create = [&] { return ++last; },
                             .destroy = [&](int handle) { destroyed.push_back(handle); },
                             .bind = [](int, StreamRef) {}});
    const HandleLease<int> lease = numbers.acquire(stream);
    const auto plain_function = [](int handle) { return handle; };
    CHECK(plain_function(lease) == 7);
    CHECK(lease.get() == 7);
  }
  CHECK(destroyed == std::vector{7});

  struct Plan {
    std::unique_ptr<int> owned;
    std::shared_ptr<int> counted;
  };
  const auto counted = std::make_shared<int>(0);
  {
    HandlePool<Plan> plans(*test.runtime, {.name = "plans",
                                           .create =
                                               [&] {
                                                 return Plan{std::make_unique<int>(0), counted};
                                               },
                                           .bind = [](Plan& plan, StreamRef) { ++*plan.owned; }});
    const HandleLease<Plan> lease = plans.acquire(stream);
    CHECK(*lease->owned == 1);
    CHECK(counted.use_count() == 2);
  }
  CHECK(counted.use_count() == 1);
}

TEST_CASE("a lease can be moved, and returns its handle once, on any thread") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  const Stream stream = test.stream();
  FakeLease lease = pool.acquire(stream);
  FakeLease moved = std::move(lease);
  CHECK(pool.counters().idle == 0);
  moved = pool.acquire(stream);  // gives back what it had
  CHECK(pool.counters().idle == 1);
  std::thread([last = std::move(moved)] {}).join();
  CHECK(pool.counters().idle == 2);
}

TEST_CASE("threads never have the same handle at once") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  constexpr int kThreads = 4;
  const Stream streams[] = {test.stream(), test.stream()};
  std::atomic<int> shared = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, index] {
      for (int round = 0; round < 2000; ++round) {
        const Stream& stream = streams[(index + round) % 2];
        const FakeLease lease = pool.acquire(stream);
        if (lease->in_use.exchange(true)) ++shared;
        if (lease->stream != stream.ref()) ++shared;
        if (round % 64 == 0) pool.trim();
        lease->in_use = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared == 0);
  const HandleCounters counters = pool.counters();
  CHECK(counters.live <= kThreads);
  CHECK(counters.idle == counters.live);
  CHECK(test.library.live() == counters.live);
}

TEST_CASE(
    "the creation of a handle blocks no other thread: the library's functions are called "
    "unlocked") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  const Stream a = test.stream();
  const Stream b = test.stream();
  const FakeHandle of_b = pool.acquire(b).get();
  const FakeLease held = pool.acquire(b);
  test.library.on_create = [&] {
    test.library.on_create = nullptr;
    std::thread([&] { CHECK(pool.acquire(a)->stream == a.ref()); }).join();
    CHECK(pool.counters().live >= 1);
  };
  const FakeLease lease = pool.acquire(a);
  CHECK(lease.get() != of_b);
  test.library.on_destroy = [&] { CHECK(pool.acquire(a)->stream == a.ref()); };
  CHECK(pool.trim() == 1);
  test.library.on_destroy = nullptr;
}

TEST_CASE("trim destroys idle handles, keeps those on lease, and leaves the pool usable") {
  LibraryTest test(two_devices());
  FakePool pool(*test.runtime, test.library.options());
  const Stream a = test.stream();
  const Stream b = test.stream(Device::cuda(1));
  const FakeLease held = pool.acquire(a);
  { const FakeLease idle[] = {pool.acquire(a), pool.acquire(b)}; }
  CHECK(pool.trim() == 2);
  CHECK(pool.trim() == 0);
  CHECK(test.library.live() == 1);
  CHECK(pool.counters().live == 1);
  CHECK(held->stream == a.ref());
  CHECK(pool.acquire(b)->stream == b.ref());
  CHECK(pool.counters().created == 4);
}

TEST_CASE("the end of a pool destroys its handles") {
  LibraryTest test;
  const Stream stream = test.stream();
  {
    FakePool pool(*test.runtime, test.library.options());
    const FakeLease leases[] = {pool.acquire(stream), pool.acquire(stream)};
  }
  CHECK(test.library.live() == 0);
  CHECK(test.library.destroys == 2);
}

TEST_CASE("invalid options are refused with the accepted values") {
  LibraryTest test;
  const auto message = [&](auto change) {
    HandlePoolOptions<FakeHandle> options = test.library.options();
    change(options);
    return message_of<InvalidArgument>([&] { FakePool(*test.runtime, std::move(options)); });
  };
  CHECK(contains(message([](auto& options) { options.name.clear(); }), "HandlePoolOptions::name"));
  CHECK(contains(message([](auto& options) { options.create = nullptr; }), "create"));
  CHECK(contains(message([](auto& options) { options.bind = nullptr; }), "bind"));
  CHECK(contains(message([](auto& options) { options.on_shortage = HandleShortage(2); }),
                 "HandlePoolOptions::on_shortage is 2; accepted: wait, fail"));
  CHECK(contains(message([](auto& options) { options.workspace_bytes = 512; }),
                 "workspace_bytes is 512, and set_workspace is null; accepted: both, or neither"));
  CHECK(contains(
      message([](auto& options) { options.set_workspace = [](FakeHandle, void*, std::size_t) {}; }),
      "workspace_bytes is 0, and set_workspace is a function"));
}

TEST_CASE("the per-thread default stream and streams of another Runtime are refused") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options());
  CHECK(contains(message_of<InvalidArgument>([&] {
                   return pool.acquire(test.runtime->per_thread_default_stream(kDevice));
                 }),
                 "fake handles of cuda:0 cannot be bound to the per-thread default stream"));
  RuntimeOptions options;
  options.driver = "sim";
  Runtime other(options);
  CHECK(contains(
      message_of<InvalidArgument>([&] { return pool.acquire(other.default_stream(kDevice)); }),
      "another Runtime"));
  CHECK(test.library.creates == 0);
}

TEST_CASE("the legacy default stream has a handle under either of its names") {
  LibraryTest test;
  FakePool pool(*test.runtime, test.library.options_with_workspace(512));
  const FakeHandle handle = pool.acquire(test.runtime->default_stream(kDevice)).get();
  CHECK(pool.acquire(test.runtime->stream(kDevice, CU_STREAM_LEGACY)).get() == handle);
  CHECK(test.library.binds == 1);
}

}  // namespace handle_pool_test
