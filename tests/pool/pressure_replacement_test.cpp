// SPDX-License-Identifier: Apache-2.0
// The pressure callback is replaced while the allocator is in use, also while it runs.
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "pool/pools_fixture.hpp"

namespace pressure_replacement_test {

using namespace berth;
using namespace berth::test;

namespace {

/// An allocator whose next request of kBytes runs short.
struct ShortTest : PoolsTest {
  static constexpr std::size_t kBytes = 40_MiB;
  using PoolsTest::PoolsTest;

  [[nodiscard]] bool serves(StreamRef on) { return memory.try_allocate(kBytes, on).ok(); }

  const Stream held_on = stream();
  std::optional<Allocation> held{memory.allocate(kBytes, held_on)};
};

}  // namespace

TEST_CASE("a callback that is set later serves the allocator and its pools, until it is removed") {
  int first_calls = 0;
  DeviceAllocatorOptions options;
  options.on_pressure = [&](std::size_t) { return ++first_calls < 0; };
  ShortTest test(options);
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Stream stream = test.stream();
  CHECK_FALSE(test.serves(stream));
  CHECK(first_calls == 1);

  int calls = 0;
  test.memory.set_on_pressure([&](std::size_t bytes_needed) {
    CHECK(bytes_needed > 0);
    ++calls;
    test.held.reset();
    test.simulator.run_all();
    return true;
  });
  {
    const Allocation block = pool.allocate(ShortTest::kBytes, stream);
    CHECK(calls == 1);
    test.memory.set_on_pressure(nullptr);
    CHECK_FALSE(test.serves(stream));
  }
  CHECK(calls == 1);
  CHECK(first_calls == 1);
}

TEST_CASE("a callback may remove itself, and what it holds lives until it returns") {
  ShortTest test;
  const Stream stream = test.stream();
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = owned;
  bool lives = false;
  test.memory.set_on_pressure([&test, &lives, owned](std::size_t) {
    const std::weak_ptr<int> held = owned;
    bool& result = lives;  // not in the callback
    test.memory.set_on_pressure(nullptr);
    result = !held.expired();
    return false;
  });
  owned.reset();
  CHECK_FALSE(test.serves(stream));
  CHECK(lives);
  CHECK(seen.expired());
  lives = false;
  CHECK_FALSE(test.serves(stream));
  CHECK_FALSE(lives);
}

TEST_CASE("a callback that another replaces inside of it does not call that one") {
  ShortTest test;
  const Stream stream = test.stream();
  int calls = 0;
  test.memory.set_on_pressure([&](std::size_t) {
    test.memory.set_on_pressure([&](std::size_t) { return ++calls < 0; });
    CHECK_FALSE(test.serves(stream));
    CHECK(calls == 0);
    return false;
  });
  CHECK_FALSE(test.serves(stream));
  CHECK_FALSE(test.serves(stream));
  CHECK(calls == 1);
}

TEST_CASE("a callback that throws may be replaced, and is gone then") {
  ShortTest test;
  const Stream stream = test.stream();
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = owned;
  test.memory.set_on_pressure([owned](std::size_t) -> bool {
    if (owned != nullptr) throw std::runtime_error("spilled");
    return false;
  });
  owned.reset();
  CHECK_THROWS_WITH_AS(static_cast<void>(test.memory.allocate(ShortTest::kBytes, stream)),
                       "spilled", std::runtime_error);
  CHECK_FALSE(seen.expired());
  int calls = 0;
  test.memory.set_on_pressure([&](std::size_t) { return ++calls < 0; });  // waits for no call
  CHECK(seen.expired());
  CHECK_FALSE(test.serves(stream));
  CHECK(calls == 1);
}

TEST_CASE("a replacement returns when no other thread is in the former callback") {
  ShortTest test;
  const Stream first = test.stream();
  const Stream second = test.stream();
  std::atomic<bool> is_in = false;
  std::atomic<bool> may_leave = false;
  std::atomic<bool> has_left = false;
  std::atomic<int> calls = 0;
  test.memory.set_on_pressure([&](std::size_t) {
    if (is_in.exchange(true)) return false;  // only the first call waits
    while (!may_leave) std::this_thread::yield();
    has_left = true;
    return false;
  });
  std::thread caller([&] { static_cast<void>(test.serves(first)); });
  while (!is_in) std::this_thread::yield();
  bool had_left = false;
  std::thread replacing([&] {
    test.memory.set_on_pressure([&](std::size_t) { return ++calls < 0; });
    had_left = has_left;
  });
  // The new one is in effect although the former one still runs.
  while (calls == 0) static_cast<void>(test.serves(second));
  may_leave = true;
  replacing.join();
  caller.join();
  CHECK(had_left);
}

TEST_CASE("threads in the callback may all remove it") {
  ShortTest test;
  std::barrier all_in(2);
  std::atomic<int> calls = 0;
  test.memory.set_on_pressure([&](std::size_t) {
    all_in.arrive_and_wait();
    test.memory.set_on_pressure(nullptr);
    ++calls;
    return false;
  });
  std::vector<std::thread> threads;
  const std::vector<Stream> streams = [&] {
    std::vector<Stream> made;
    made.push_back(test.stream());
    made.push_back(test.stream());
    return made;
  }();
  for (const Stream& stream : streams)
    threads.emplace_back([&] { static_cast<void>(test.serves(stream)); });
  for (std::thread& thread : threads) thread.join();
  CHECK(calls == 2);
}

TEST_CASE("no callback runs after its replacement has returned") {
  struct Target {
    std::atomic<bool> has_ended = false;
  };
  ShortTest test;
  std::atomic<bool> is_over = false;
  std::atomic<int> late = 0;
  std::atomic<int> calls = 0;
  const auto set = [&](Target* target) {
    test.memory.set_on_pressure([&late, &calls, target](std::size_t) {
      std::this_thread::yield();
      if (target->has_ended) ++late;
      ++calls;
      return false;
    });
  };
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(std::make_unique<Target>());
  set(targets.back().get());
  const Stream streams[] = {test.stream(), test.stream()};
  std::vector<std::thread> threads;
  for (const Stream& stream : streams) {
    threads.emplace_back([&] {
      while (!is_over) static_cast<void>(test.serves(stream));
    });
  }
  for (int round = 0; round < 100; ++round) {
    const int before = calls;
    while (calls == before) std::this_thread::yield();
    Target& former = *targets.back();
    targets.push_back(std::make_unique<Target>());
    set(targets.back().get());
    former.has_ended = true;
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(late == 0);
}

}  // namespace pressure_replacement_test
