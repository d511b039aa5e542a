// SPDX-License-Identifier: Apache-2.0
// Requests on the ladder while other threads take memory first: they fail only if no memory is
// left, and they terminate.
#include <functional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "memory/allocator_fixture.hpp"
#include "pool/pools_fixture.hpp"
#include "support/foreign_stream.hpp"

namespace ladder_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kLimitBytes = 60_MiB;

struct LadderTest : AllocatorFixture {
  explicit LadderTest(CrossStreamReuse reuse)
      : AllocatorFixture({.bytes_reserved_max = kLimitBytes, .cross_stream_reuse = reuse}) {}

  void leave_all_busy(StreamRef stream) {
    void* const data = allocate(kLimitBytes, stream);
    log.submit(stream, "work");
    free(data);
  }
};

}  // namespace

TEST_CASE("a request succeeds although another thread returned the memory that it waited for") {
  LadderTest test(CrossStreamReuse::when_idle);
  const Stream busy = test.stream();
  const Stream own = test.stream();
  test.leave_all_busy(busy);
  test.meanwhile(DriverCall::event_synchronize,
                 [&] { CHECK(test.allocator->trim(0) == kLimitBytes); });
  CHECK(test.allocate(20_MiB, own) != nullptr);
}

TEST_CASE("a request succeeds with the rest of memory that two requests waited for") {
  LadderTest test(CrossStreamReuse::when_idle);
  const Stream busy = test.stream();
  const Stream own = test.stream();
  const Stream other = test.stream();
  test.leave_all_busy(busy);
  test.meanwhile(DriverCall::event_synchronize,
                 [&] { CHECK(test.allocator->allocate(1_MiB, other) != nullptr); });
  CHECK(test.allocate(20_MiB, own) != nullptr);
}

TEST_CASE("a request succeeds with memory that another thread's request recovered") {
  LadderTest test(CrossStreamReuse::behind_waits);
  const Stream own = test.stream();
  const Stream other = test.stream();
  const StreamRef foreign = disown(test.stream());
  test.leave_all_busy(foreign);
  test.meanwhile(DriverCall::ctx_synchronize,
                 [&] { CHECK(test.allocator->allocate(1_MiB, other) != nullptr); });
  CHECK(test.allocate(20_MiB, own) != nullptr);
  test.simulator.run_all();
  test.context.retire_stream(foreign.native());
  destroy_disowned(foreign);
}

TEST_CASE("a request succeeds although another thread trimmed the pool that it waited for") {
  PoolsTest test({.limits = {.bytes_reserved_max = kLimitBytes},
                  .cross_stream_reuse = CrossStreamReuse::when_idle});
  const Stream busy = test.stream();
  const Stream own = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "other"});
  {
    const Allocation block = pool.allocate(50_MiB, busy);
    test.log.submit(busy, "work");
  }
  test.meanwhile(DriverCall::event_synchronize, [&] { CHECK(pool.trim() == 50_MiB); });
  CHECK(test.memory.allocate(20_MiB, own).data() != nullptr);
}

TEST_CASE("a request succeeds if the limit is raised meanwhile") {
  AllocatorFixture* raises = nullptr;
  AllocatorFixture test({.bytes_reserved_max = 2_MiB, .on_pressure = [&](std::size_t) {
                           raises->budget.set_limits({.max = kLimitBytes});
                           return false;
                         }});
  raises = &test;
  const Stream own = test.stream();
  REQUIRE(test.allocate(2_MiB, own) != nullptr);
  CHECK(test.allocate(2_MiB, own) != nullptr);
}

TEST_CASE("a request that cannot be served makes one pass through the ladder") {
  LadderTest test(CrossStreamReuse::when_idle);
  const Stream own = test.stream();
  const Stream other = test.stream();
  void* const wall = test.allocate(30_MiB, other);
  test.free(test.allocate(20_MiB, own));
  test.simulator.run_all();
  const Stream busy = test.stream();  // so that not all memory is opened at once
  void* const used = test.allocate(2_MiB, busy);
  test.log.submit(busy, "work");
  test.free(used);
  const auto queries = [&] { return test.driver.calls()[std::size_t(DriverCall::stream_query)]; };
  const std::uint64_t before = queries();
  CHECK_THROWS_AS(test.allocate(50_MiB, own), OutOfMemory);
  CHECK(queries() - before <= 16);
  test.free(wall);
}

TEST_CASE("waits for uses of freed blocks end while other threads free more blocks") {
  LadderTest test(CrossStreamReuse::behind_waits);
  const Stream own = test.stream();
  const Stream user = test.stream();
  const auto free_used = [&] {
    void* const data = test.allocator->allocate(1_MiB, own);
    test.allocator->record_stream(data, user);
    test.log.submit(user, "use");
    test.allocator->deallocate(data);
  };
  free_used();
  int waits = 0;
  std::function<void()> free_more = [&] {
    if (++waits == 100) return;
    std::thread(free_used).join();
    test.tap.after(DriverCall::event_synchronize, free_more);
  };
  test.tap.after(DriverCall::event_synchronize, free_more);
  test.allocator->release_cached(60_MiB, CachingAllocator::HostWait::yes);
  CHECK(waits < 10);
  test.tap.after(DriverCall::event_synchronize, nullptr);
}

TEST_CASE("a request that is too large fails while other threads keep freeing memory") {
  LadderTest test(CrossStreamReuse::when_idle);
  const Stream own = test.stream();
  const Stream busy = test.stream();
  std::vector<void*> row;
  for (int count = 0; count < 160; ++count) row.push_back(test.allocator->allocate(256_KiB, busy));
  std::size_t freed = 0;  // every second one, so that they do not join
  std::function<void()> free_more = [&] {
    if (freed == row.size()) return;
    test.log.submit(busy, "work");
    std::thread([&] { test.allocator->deallocate(row[freed]); }).join();
    freed += 2;
    test.tap.after(DriverCall::event_synchronize, free_more);
  };
  free_more();
  CHECK_THROWS_AS(static_cast<void>(test.allocator->allocate(30_MiB, own)), OutOfMemory);
  CHECK(freed < row.size() / 2);
  test.tap.after(DriverCall::event_synchronize, nullptr);
}

}  // namespace ladder_threads_test
