// SPDX-License-Identifier: Apache-2.0
// What a pool of handles does at its bound.
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "library/library_fixture.hpp"
#include "support/errors.hpp"

namespace handle_shortage_test {

using namespace berth;
using namespace berth::test;

namespace {

HandlePoolOptions<FakeHandle> bounded(FakeLibrary& library, std::size_t handles_max,
                                      HandleShortage on_shortage) {
  HandlePoolOptions<FakeHandle> options = library.options();
  options.handles_max = handles_max;
  options.on_shortage = on_shortage;
  return options;
}

/// A thread that asks for a handle, which it should have to wait for.
class Waiter {
 public:
  Waiter(FakePool& pool, StreamRef stream)
      : thread_([this, &pool, stream] {
          has_begun_ = true;
          const FakeLease lease = pool.acquire(stream);
          CHECK(lease->stream == stream);
          handle_ = lease;
        }) {
    while (!has_begun_) std::this_thread::yield();
    for (int turn = 0; turn < 2000; ++turn) std::this_thread::yield();
  }
  [[nodiscard]] FakeHandle handle_now() const { return handle_; }
  /// What it has had in the end.
  FakeHandle join() {
    thread_.join();
    return handle_;
  }

 private:
  std::atomic<bool> has_begun_ = false;
  std::atomic<FakeHandle> handle_ = nullptr;
  std::thread thread_;
};

}  // namespace

TEST_CASE("with policy fail the error names pool, bound and option, for each device") {
  sim::Config config;
  config.devices = 2;
  LibraryTest test(config);
  FakePool pool(*test.runtime, bounded(test.library, 2, HandleShortage::fail));
  const Stream stream = test.stream();
  const Stream other = test.stream();
  const Stream there = test.stream(Device::cuda(1));
  std::optional<FakeLease> first = pool.acquire(stream);
  const FakeLease second = pool.acquire(stream);
  const std::string message = message_of<Exhausted>([&] { return pool.acquire(other); });
  CHECK(contains(message,
                 "fake handles of cuda:0: all 2 are on lease; accepted: as many at once as "
                 "HandlePoolOptions::handles_max"));
  const FakeLease elsewhere = pool.acquire(there);
  const FakeHandle back = *first;
  first.reset();
  CHECK(pool.acquire(other).get() == back);
  CHECK(test.library.creates == 3);
}

TEST_CASE("with policy wait a thread waits for a returned handle and gets it bound") {
  LibraryTest test;
  FakePool pool(*test.runtime, bounded(test.library, 1, HandleShortage::wait));
  const Stream stream = test.stream();
  const Stream other = test.stream();
  std::optional<FakeLease> held = pool.acquire(stream);
  const FakeHandle handle = *held;
  Waiter waiter(pool, other);
  CHECK(waiter.handle_now() == nullptr);
  held.reset();
  CHECK(waiter.join() == handle);
  CHECK(test.library.creates == 1);
}

TEST_CASE(
    "a waiting thread continues if the creation of a handle fails, and if a handle is destroyed") {
  LibraryTest test;
  FakePool pool(*test.runtime, bounded(test.library, 1, HandleShortage::wait));
  const Stream stream = test.stream();
  for (const std::string function : {"create", "bind"}) {
    CAPTURE(function);
    pool.trim();
    std::optional<Waiter> waiter;
    const int creates = test.library.creates;
    test.library.on_create = [&] {
      test.library.on_create = nullptr;
      waiter.emplace(pool, stream);
      CHECK(test.library.creates == creates + 1);
      if (function == "create") throw LibraryFailure{function};
      test.library.fail_next(function);
    };
    CHECK_THROWS_AS(static_cast<void>(pool.acquire(stream)), LibraryFailure);
    CHECK(waiter->join() != nullptr);
    CHECK(pool.counters().live == 1);
    CHECK(pool.counters().idle == 1);
  }
}

}  // namespace handle_shortage_test
