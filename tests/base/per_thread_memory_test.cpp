// SPDX-License-Identifier: Apache-2.0
// Threads that start while the host is short of memory.
#include <cstddef>
#include <thread>

#include <doctest/doctest.h>

#include "base/per_thread.hpp"
#include "support/scarce_memory.hpp"

namespace per_thread_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

class Part {
 public:
  [[nodiscard]] BiasedLock& lock() { return lock_; }

 private:
  BiasedLock lock_;
};
using Parts = PerThread<Part>;

struct Owner {
  Mutex mutex;
  int ended = 0;  ///< guarded by `mutex`
  Parts parts{mutex, [this](Part&) { ++ended; }};

  [[nodiscard]] std::size_t count() {
    const MutexLock lock(mutex);
    return parts.count();
  }
};

}  // namespace

TEST_CASE("a thread has no part while any of its allocations fails") {
  if (!BiasedLock::is_available()) {
    MESSAGE("no membarrier here: there are no parts");
    return;
  }
  Owner owner;
  // The table of the thread's parts, which stays; the part itself; the list of all parts.
  constexpr std::size_t kGranted[] = {0, 1, 1};
  std::size_t refused = 0;
  Part* part = nullptr;
  std::thread([&] {
    for (const std::size_t granted : kGranted) {
      {
        const ScarceMemory scarce(granted);
        part = owner.parts.local_or_new();
      }
      if (part == nullptr && owner.parts.local() == nullptr && owner.count() == 0) ++refused;
    }
    const ScarceMemory scarce(2);
    part = owner.parts.local_or_new();
  }).join();
  CHECK(refused == 3);
  CHECK(part != nullptr);
  CHECK(owner.ended == 1);
  CHECK(owner.count() == 0);
}

TEST_CASE("the end of a thread that got no part for lack of memory is not reported") {
  Owner owner;
  std::thread([&] {
    const ScarceMemory scarce(0);
    owner.parts.local_or_new();
  }).join();
  CHECK(owner.ended == 0);
  CHECK(owner.count() == 0);
}

TEST_CASE("exclusive access allocates no memory, however many parts there are") {
  Owner owner;
  owner.parts.local_or_new();
  std::thread([&] {
    owner.parts.local_or_new();
    std::size_t calls = 0;
    std::size_t parts = 0;
    {
      const MutexLock lock(owner.mutex);
      const ScarceMemory scarce(0);
      const Parts::ExclusiveAccess exclusive(owner.parts);
      exclusive.for_each([&](Part&) { ++parts; });
      calls = scarce.calls();
    }
    CHECK(calls == 0);
    CHECK(parts == owner.count());
  }).join();
}

}  // namespace per_thread_memory_test
