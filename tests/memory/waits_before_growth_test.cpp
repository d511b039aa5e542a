// SPDX-License-Identifier: Apache-2.0
// CrossStreamReuse::before_growth: streams wait for one another on the GPU before more memory is
// obtained than was ever live. Work is pending until a test runs it, and the simulator sees blocks
// that two streams use without an order.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "memory/reuse_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/foreign_stream.hpp"

namespace waits_before_growth_test {

using namespace berth;
using namespace berth::test;

namespace {

class WaitsTest : public ReuseTest {
 public:
  explicit WaitsTest(DeviceAllocatorOptions options = {})
      : ReuseTest(CrossStreamReuse::before_growth, std::move(options)) {}

  /// A stream that waits for the others already writes a block.
  void use(const Allocation& block, StreamRef user) {
    write(block, user);
    block.record_use(user);
  }
  [[nodiscard]] std::uint64_t waits() const { return counters().stream_waits_inserted; }
};

/// For what other threads do between two driver calls.
struct WaitsBetweenCalls : AllocatorFixture {
  WaitsBetweenCalls() : AllocatorFixture({.cross_stream_reuse = CrossStreamReuse::before_growth}) {}

  Stream owner = stream();
  Stream user = stream();
  Stream own = stream();
};

}  // namespace

TEST_CASE("before_growth: memory of a busy stream is reused behind a wait") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    WaitsTest test(options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    const void* const left = test.cache(20_MiB, first);
    test.log.submit(first, "earlier");
    const Allocation block = test.allocate(20_MiB, second);
    CHECK(block.data() == left);
    CHECK(test.reserved() == 20_MiB);
    CHECK(test.waits() == 1);
    CHECK_FALSE(test.log.is_done("earlier"));  // the host has not waited
    test.log.submit(second, "later");
    second.ref().sync();
    CHECK(test.log.is_done("earlier"));
  });
}

TEST_CASE("behind_waits: memory grows instead") {
  ReuseTest test(CrossStreamReuse::behind_waits);
  const Stream first = test.stream();
  const Stream second = test.stream();
  static_cast<void>(test.cache(20_MiB, first));
  const Allocation block = test.allocate(20_MiB, second);
  CHECK(test.reserved() == 40_MiB);
  CHECK(test.counters().stream_waits_inserted == 0);
}

TEST_CASE("before_growth: no stream waits while less is reserved than was ever live") {
  WaitsTest test;
  const Stream first = test.stream();
  const Stream second = test.stream();
  {
    const Allocation most = test.allocate(60_MiB, first);
    first.ref().sync();
  }
  static_cast<void>(test.memory.trim());
  test.memory.reset_peaks();  // statistics start anew, what the program needs does not
  static_cast<void>(test.cache(20_MiB, first));
  const Allocation block = test.allocate(20_MiB, second);
  CHECK(test.reserved() == 40_MiB);
  CHECK(test.waits() == 0);
}

TEST_CASE("before_growth: no more streams are waited for than serve the request") {
  WaitsTest test;
  const Stream first = test.stream();
  const Stream second = test.stream();
  const Stream third = test.stream();
  {
    const Allocation long_ago = test.allocate(16_MiB, first);
    const Allocation just_now = test.allocate(8_MiB, second);
  }
  const std::uint64_t reserved = test.reserved();
  const Allocation small = test.allocate(2_MiB, third);
  CHECK(test.waits() == 1);
  const Allocation rest = test.allocate(8_MiB, second);  // still its own
  CHECK(test.waits() == 1);
  const Allocation more = test.allocate(14_MiB, third);  // behind the same wait
  CHECK(test.waits() == 1);
  CHECK(test.reserved() == reserved);
}

TEST_CASE("before_growth: granules of several streams serve one request") {
  WaitsTest test;
  const Stream first = test.stream();
  const Stream second = test.stream();
  const Stream third = test.stream();
  Allocation below = test.allocate(16_MiB, first);
  const Allocation wall = test.allocate(2_MiB, third);
  Allocation above = test.allocate(20_MiB, second);
  const std::uint64_t reserved = test.reserved();
  below = {};
  above = {};
  const Allocation large = test.allocate(36_MiB, third);  // not one granule more is free
  CHECK(test.reserved() == reserved);
  CHECK(test.waits() > 0);
  CHECK(test.counters().page_remaps > 0);
}

TEST_CASE("before_growth: a stream waits for uses of its own freed blocks by other streams") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    for (const bool records_use : {false, true}) {
      CAPTURE(records_use);
      WaitsTest test(options);
      const Stream own = test.stream();
      const Stream user = test.stream();
      const void* data = nullptr;
      {
        const Allocation block = test.allocate(20_MiB, own);
        data = block.data();
        test.runtime->join(user, {own});
        test.write(block, user);
        test.log.submit(user, "use");
        if (records_use) {
          block.record_use(user);
        } else {
          block.record_stream(user);
        }
      }
      CHECK(test.counters().blocks_pending.current == 1);
      const Allocation again = test.allocate(20_MiB, own);
      CHECK(again.data() == data);
      CHECK(test.reserved() == 20_MiB);
      CHECK(test.waits() == 1);
      CHECK(test.counters().blocks_pending.current == 0);
      CHECK(test.counters().frees_reclaimed == 1);
      CHECK_FALSE(test.log.is_done("use"));
    }
  });
}

TEST_CASE("before_growth: one wait covers all earlier frees with uses by a stream, of one owner") {
  WaitsTest test;
  const Stream own = test.stream();
  const Stream other = test.stream();
  const Stream user = test.stream();
  std::vector<Allocation> blocks;
  blocks.push_back(test.allocate(4_MiB, other));
  for (int count = 0; count < 4; ++count) blocks.push_back(test.allocate(4_MiB, own));
  test.runtime->join(user, {own, other});
  for (const Allocation& block : blocks) {
    test.use(block, user);
  }
  blocks.clear();
  const std::uint64_t pending = test.counters().blocks_pending.current;
  const std::uint64_t reserved = test.reserved();
  REQUIRE(pending == 5);
  const Allocation large = test.allocate(16_MiB, own);
  CHECK(test.waits() == 1);
  CHECK(test.reserved() == reserved);
  CHECK(test.counters().blocks_pending.current == 1);  // the other stream has not waited
}

TEST_CASE("before_growth: two users of one block are both waited for") {
  WaitsTest test;
  const Stream own = test.stream();
  const Stream users[] = {test.stream(), test.stream()};
  const void* data = nullptr;
  {
    const Allocation block = test.allocate(20_MiB, own);
    data = block.data();
    for (const Stream& user : users) {
      test.runtime->join(user, {own});
      if (&user != &users[0]) test.runtime->join(user, {users[0]});
      test.use(block, user);
    }
  }
  const Allocation again = test.allocate(20_MiB, own);
  CHECK(again.data() == data);
  CHECK(test.waits() == 2);
  CHECK(test.reserved() == 20_MiB);
}

TEST_CASE("before_growth: a stream waits for the owner and the user of what another stream freed") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    WaitsTest test(options);
    const Stream owner = test.stream();
    const Stream user = test.stream();
    const Stream own = test.stream();
    const void* data = nullptr;
    {
      const Allocation block = test.allocate(20_MiB, owner);
      data = block.data();
      test.runtime->join(user, {owner});
      test.use(block, user);
      test.runtime->join(owner, {user});
      test.write(block, owner);
    }
    const Allocation taken = test.allocate(20_MiB, own);
    CHECK(taken.data() == data);
    CHECK(test.reserved() == 20_MiB);
    CHECK(test.waits() == 2);
    CHECK(test.counters().blocks_pending.current == 0);
    CHECK(test.counters().frees_reclaimed == 1);
  });
}

TEST_CASE("before_growth: a block with two uses is not reused behind the first") {
  WaitsTest test;
  const Stream owner = test.stream();
  const Stream slow = test.stream();
  const Stream quick = test.stream();
  const Stream own = test.stream();
  const void* data = nullptr;
  {
    const Allocation block = test.allocate(20_MiB, owner);
    data = block.data();
    test.runtime->join(slow, {owner});
    test.log.submit(slow, "slow use");
    block.record_use(slow);
    test.runtime->join(quick, {owner});
    block.record_use(quick);
  }
  const Allocation other = test.allocate(20_MiB, own);
  CHECK(other.data() != data);
  quick.ref().sync();
  const Allocation again = test.allocate(20_MiB, owner);
  test.log.submit(owner, "behind the use");
  owner.ref().sync();
  CHECK((again.data() != data || test.log.is_done("slow use")));
}

TEST_CASE(
    "before_growth: a used block freed on a foreign stream and not marked since is not reused") {
  WaitsTest test;
  const StreamRef silent = disown(test.stream());
  const Stream user = test.stream();
  const Stream own = test.stream();
  const void* data = nullptr;
  const Allocation named = test.allocate(512, own);  // one stream alone gets no marks
  static_cast<void>(test.cache(2_MiB, silent));
  {
    // A miss, which marks what was freed before.
    const Allocation block = test.allocate(20_MiB, silent);
    data = block.data();
    test.runtime->join(user, {silent});
    test.use(block, user);
    test.runtime->join(silent, {user});
    test.write(block, silent);
  }
  const Allocation other = test.allocate(20_MiB, own);
  CHECK(other.data() != data);
  test.simulator.run_all();
  test.memory.retire_stream(silent);
  destroy_disowned(silent);
}

TEST_CASE_FIXTURE(WaitsBetweenCalls,
                  "before_growth: memory freed while the owner's work is marked is not reused") {
  void* const early = allocate(8_MiB, owner);
  void* const late = allocate(20_MiB, owner);
  allocator->record_stream(early, user);
  allocator->record_stream(late, user);
  free(early);
  tap.after(DriverCall::event_record, [&] {
    log.submit(owner, "late work");
    allocator->deallocate(late);
  });
  void* const data = allocate(8_MiB, own);
  CHECK(data == early);
  CHECK(counters().blocks_pending.current == 1);
}

TEST_CASE("before_growth: uses of small blocks do not prevent reuse of other streams' memory") {
  WaitsTest test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  const Stream other = test.stream();
  Allocation small = test.allocate(4_KiB, own);
  test.runtime->join(user, {own});
  test.use(small, user);
  static_cast<void>(test.cache(20_MiB, other));
  const std::uint64_t reserved = test.reserved();
  small = {};
  const Allocation large = test.allocate(20_MiB, own);
  CHECK(test.reserved() == reserved);
}

TEST_CASE("before_growth: memory freed on a foreign stream and not marked since is not reused") {
  WaitsTest test;
  const StreamRef silent = disown(test.stream());
  const Stream own = test.stream();
  const Stream other = test.stream();
  Allocation early = test.allocate(2_MiB, silent);
  Allocation given = test.allocate(16_MiB, other);
  early = {};
  Allocation left = test.allocate(20_MiB, silent);  // a miss, which marks what was freed before
  left = {};
  given = {};
  const std::uint64_t reserved = test.reserved();
  const std::uint64_t waits = driver_calls(*test.runtime, "cuStreamWaitEvent");
  const Allocation block = test.allocate(16_MiB, own);
  CHECK(test.reserved() == reserved);
  CHECK(test.waits() == 1);
  CHECK(driver_calls(*test.runtime, "cuStreamWaitEvent") == waits + 1);
  test.simulator.run_all();
  destroy_disowned(silent);
}

TEST_CASE("before_growth: a captured stream does not wait, and its pool grows") {
  WaitsTest test;
  const Stream first = test.stream();
  const Stream second = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "graphs", .for_graphs = true});
  {
    const Allocation block = pool.allocate(8_MiB, first);
    test.write(block, first);
  }
  begin_capture(second);
  const Allocation inside = pool.allocate(8_MiB, second);
  const CapturedGraph graph(second);
  CHECK(pool.counters().stream_waits_inserted == 0);
  CHECK(pool.counters().bytes_reserved.current == 16_MiB);
}

}  // namespace waits_before_growth_test
