// SPDX-License-Identifier: Apache-2.0
// The cost of a request that the calling thread's cache cannot serve: searches of the heap, locks,
// driver queries.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/lock_counter.hpp"
#include "support/scarce_memory.hpp"

namespace miss_cost_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Of `action`, which the allocator is asked for.
struct Cost {
  template <class Action>
  Cost(AllocatorFixture& test, const Action& action) {
    const std::uint64_t searches_before = test.allocator->searches();
    const LockCounter counter(*test.allocator);
    action();
    locks = counter.locks();
    searches = test.allocator->searches() - searches_before;
  }
  std::uint64_t searches = 0;
  std::uint64_t locks = 0;
};

}  // namespace

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a request that the heap serves takes one search and one lock") {
  const Stream stream = this->stream();
  void* const kept = allocate(1_MiB, stream);  // the rest of its granule is free
  void* data = nullptr;
  const Cost cost(*this, [&] { data = allocator->allocate(64_KiB, stream.ref()); });
  CHECK(cost.searches == 1);
  if (kCountsLocks) CHECK(cost.locks == 1);
  free(data);
  free(kept);
}

TEST_CASE_FIXTURE(AllocatorFixture, "a plain miss that grows takes two searches and six locks") {
  const Stream stream = this->stream();
  void* const kept = allocate(2_MiB, stream);
  void* data = nullptr;
  const Cost cost(*this, [&] { data = allocator->allocate(4_MiB, stream.ref()); });
  CHECK(counters().allocations_grown == 2);
  CHECK(cost.searches <= 2);
  if (kCountsLocks) {
    CHECK(cost.locks <= 6);
    CHECK(cost.locks >= 3);
  }
  free(data);
  free(kept);
}

TEST_CASE_FIXTURE(AllocatorFixture, "a request queries few of very many streams before it grows") {
  std::vector<Stream> streams;
  for (int index = 0; index < 100; ++index) {
    streams.push_back(stream());
    void* const data = allocate(256_KiB, streams.back());
    log.submit(streams.back(), "work " + std::to_string(index));
    free(data);
  }
  const Stream other = stream();
  const std::uint64_t queries = simulator.calls("cuStreamQuery");
  void* const data = allocate(8_MiB, other);
  CHECK(simulator.calls("cuStreamQuery") - queries <= 16);
  free(data);
}

/// Half of the memory is one stream's, and half the other's, which have no work pending: at each
/// step they pass it to one another.
TEST_CASE_FIXTURE(AllocatorFixture,
                  "passing all memory between streams makes no call of the host's heap") {
  const std::vector<Stream> streams = [&] {
    std::vector<Stream> made;
    for (int index = 0; index < 4; ++index) made.push_back(stream());
    return made;
  }();
  const auto step = [&] {
    for (const Stream& each : streams) {
      void* const large = allocator->allocate(40_MiB, each.ref());
      void* const small = allocator->allocate(256_KiB, each.ref());
      allocator->deallocate(large);
      allocator->deallocate(small);
    }
  };
  step();
  step();
  const std::uint64_t passed_on = counters().blocks_passed_on;
  std::size_t calls = 0;
  {
    const ScarceMemory counter(ScarceMemory::kUnlimited);
    step();
    step();
    calls = counter.calls();
  }
  CHECK(calls == 0);
  CHECK(counters().blocks_passed_on > passed_on);
}

}  // namespace miss_cost_test
