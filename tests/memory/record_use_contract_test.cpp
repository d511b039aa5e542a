// SPDX-License-Identifier: Apache-2.0
// What a use that ends before the block is freed delays, and what it costs.
#include <doctest/doctest.h>

#include "memory/use_test.hpp"

namespace record_use_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = UseTest::kBytes;

}  // namespace

TEST_CASE("work submitted after a recorded use does not delay reuse") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    void* const data = test.allocate();
    test.use(data, test.user, "use");
    test.log.submit(test.user, "later");
    test.memory.deallocate(data);
    check_whole(test.memory);
    test.run_to_the_end_of("use", test.user);
    CHECK(test.is_reused(data));
    CHECK_FALSE(test.log.is_done("later"));
    CHECK(test.counters().frees_reclaimed == 1);
    CHECK(test.counters().deferred_free_waits == 0);
  });
}

TEST_CASE("record_stream() waits for later work that does not use the block") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    void* const data = test.allocate();
    test.log.submit(test.user, "use");
    test.memory.record_stream(data, test.user);
    test.log.submit(test.user, "later");
    test.memory.deallocate(data);
    test.run_to_the_end_of("use", test.user);
    CHECK_FALSE(test.is_reused(data));
  });
}

TEST_CASE("work submitted before a recorded use delays reuse, on every stream") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    const Stream third = test.stream();
    void* const data = test.allocate();
    test.use(data, test.user, "earlier");
    test.memory.deallocate(data);
    CHECK(test.counters().frees_deferred == 1);
    CHECK(test.counters().blocks_pending.current == 1);
    CHECK(test.counters().bytes_active.current == kBytes);
    for (const StreamRef later : {test.own.ref(), third.ref()}) {
      const Allocation block = test.memory.allocate(kBytes, later);
      CHECK(test.apart_or_in_order(data, kBytes, block.data(), kBytes, later));
    }
    CHECK_FALSE(test.log.is_done("earlier"));
    CHECK(test.counters().frees_reclaimed == 0);
    check_whole(test.memory);
  });
}

TEST_CASE("with nothing else left the host waits for the use, and for no later work") {
  UseTest test({}, small_device(64_MiB, sim::Progress::manual));
  void* const data = test.memory.allocate_raw(60_MiB, test.own);
  test.use(data, test.user, "use");
  test.log.submit(test.user, "later");
  test.memory.deallocate(data);
  CHECK(test.memory.allocate(60_MiB, test.own).data() == data);
  CHECK(test.log.is_done("use"));
  CHECK_FALSE(test.log.is_done("later"));
  CHECK(test.counters().deferred_free_waits == 1);
}

TEST_CASE("of two recorded uses of a stream the later one delays reuse") {
  UseTest test;
  void* const data = test.allocate();
  test.use(data, test.user, "first");
  test.use(data, test.user, "second");
  test.log.submit(test.user, "later");
  test.memory.deallocate(data);
  test.run_to_the_end_of("first", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("second", test.user);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE("a block used by several streams waits for each use") {
  UseTest test;
  const Stream slow = test.stream();
  void* const data = test.allocate();
  test.use(data, slow, "slow");
  test.use(data, test.user, "quick");
  test.log.submit(slow, "later");
  test.memory.deallocate(data);
  test.run_to_the_end_of("quick", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("slow", slow);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE(
    "record_stream() covers the uses that were recorded before and after, for its stream alone") {
  UseTest test;
  const Stream other = test.stream();
  void* const data = test.allocate();
  test.use(data, other, "other use");
  SUBCASE("before") {
    test.use(data, test.user, "use");
    test.memory.record_stream(data, test.user);
  }
  SUBCASE("after") {
    test.memory.record_stream(data, test.user);
    const std::uint64_t calls = driver_calls(*test.runtime);
    test.use(data, test.user, "use");
    CHECK(driver_calls(*test.runtime) == calls);
  }
  test.log.submit(test.user, "until the free");
  test.log.submit(other, "later");
  test.memory.deallocate(data);
  test.run_to_the_end_of("other use", other);
  test.run_to_the_end_of("use", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("until the free", test.user);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE("a block whose use is completed does not wait for later uses of other blocks") {
  UseTest test;
  void* const first = test.allocate();
  void* const second = test.allocate();
  void* const third = test.allocate();
  test.use(first, test.user, "first use");
  test.use(second, test.user, "second use");
  test.log.submit(test.user, "third use");
  test.memory.record_stream(third, test.user);
  for (void* const data : {third, second, first}) test.memory.deallocate(data);
  test.run_to_the_end_of("first use", test.user);
  CHECK(test.is_reused(first));
  CHECK(test.counters().blocks_pending.current == 2);
  test.run_to_the_end_of("second use", test.user);
  CHECK(test.is_reused(second));
  CHECK(test.counters().blocks_pending.current == 1);
  CHECK_FALSE(test.log.is_done("third use"));
}

TEST_CASE("a use known to be complete does not defer the free") {
  UseTest test;
  void* const first = test.allocate();
  void* const second = test.allocate();
  test.use(first, test.user, "first use");
  test.use(second, test.user, "second use");
  test.log.submit(test.user, "later");
  test.memory.deallocate(second);
  test.run_to_the_end_of("second use", test.user);
  CHECK(test.is_reused(second));  // that the second use is over says the same of the first
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.deallocate(first);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.is_reused(first));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("the completion of a use does not complete a later one") {
  UseTest test;
  void* const first = test.allocate();
  void* const second = test.allocate();
  test.use(first, test.user, "first use");
  test.use(second, test.user, "second use");
  test.memory.deallocate(first);
  test.run_to_the_end_of("first use", test.user);
  CHECK(test.is_reused(first));
  test.memory.deallocate(second);
  CHECK(test.counters().frees_deferred == 2);
  CHECK_FALSE(test.is_reused(second));
}

TEST_CASE("the block's own stream needs no record: no driver call, and nothing is deferred") {
  UseTest test;
  void* const data = test.allocate();
  test.log.submit(test.own, "work");
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.record_use(data, test.own);
  test.memory.deallocate(data);
  CHECK(test.counters().frees_deferred == 0);
  CHECK(test.is_reused(data));
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK_FALSE(test.log.is_done("work"));
}

TEST_CASE("record_use() makes one event record and one capture query, and the free no call") {
  UseTest test;
  for (int round = 0; round < 3; ++round) {  // the first one fills the pool of events
    CAPTURE(round);
    Allocation block = test.memory.allocate(1000, test.own);
    const std::uint64_t creates = test.calls("cuEventCreate");
    const std::uint64_t records = test.calls("cuEventRecord");
    const std::uint64_t questions = test.calls("cuStreamIsCapturing");
    test.log.submit(test.user, "use");
    block.record_use(test.user);
    CHECK(test.calls("cuEventRecord") == records + 1);
    CHECK(test.calls("cuStreamIsCapturing") == questions + 1);
    CHECK(test.calls("cuEventCreate") == creates + (round == 0 ? 1 : 0));
    const std::uint64_t calls = driver_calls(*test.runtime);
    block.reset();
    CHECK(driver_calls(*test.runtime) == calls);
    test.simulator.run_all();
    test.memory.trim();
    CHECK(test.counters().blocks_pending.current == 0);
  }
}

TEST_CASE("a use recorded in one life of a block does not delay its next life") {
  UseTest test;
  void* const data = test.allocate();
  test.use(data, test.user, "use");
  test.memory.deallocate(data);
  test.simulator.run_all();
  void* const again = test.allocate();
  REQUIRE(again == data);
  test.log.submit(test.user, "unrelated");
  test.memory.deallocate(again);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.is_reused(data));
}

}  // namespace record_use_contract_test
