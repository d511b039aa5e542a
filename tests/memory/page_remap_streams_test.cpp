// SPDX-License-Identifier: Apache-2.0
// Which streams' free memory page remap joins, and behind which work.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/remap_fixture.hpp"

namespace page_remap_streams_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = RemapTest::kGranule;
constexpr std::size_t kDeviceGranules = RemapTest::kDeviceGranules;
constexpr std::size_t kDeviceBytes = RemapTest::kDeviceBytes;

}  // namespace

TEST_CASE("holes of a stream with work pending are left alone while there is other memory") {
  RemapTest test;
  const Stream own = test.stream();
  const Stream other = test.stream();
  test.make_holes(8, own);
  test.make_holes(8, other);
  test.simulator.run_all();
  test.log.submit(other, "earlier");
  for (std::size_t index = 4; index < 8; ++index) test.free(test.walls[index]);  // of the other's
  const Allocation large = test.allocate(8 * kGranule, own);
  CHECK(test.reserved() == 20 * kGranule);  // four holes of its own, the rest is new
  CHECK(test.counters().stream_waits_inserted == 0);
  test.log.submit(own, "later");
  test.run_stream(own);
  CHECK(test.log.is_done("later"));
  CHECK_FALSE(test.log.is_done("earlier"));
  CHECK(test.all_hold());
}

TEST_CASE("holes of a busy stream are joined behind its work if no other memory is left") {
  RemapTest test;
  const Stream own = test.stream();
  const Stream other = test.stream();
  test.make_holes(16, own);
  std::vector<Allocation> row;
  for (int index = 0; index < 16; ++index) row.push_back(test.allocate(kGranule, other));
  test.simulator.run_all();
  test.log.submit(other, "earlier");
  for (std::size_t index = 0; index < 16; index += 2) test.free(row[index]);
  const Allocation large = test.allocate(16 * kGranule, own);
  CHECK(test.counters().stream_waits_inserted == 1);
  test.log.submit(own, "later");
  test.run_stream(own);
  CHECK_FALSE(test.log.is_done("later"));
  CHECK(test.all_hold());
  CHECK(test.log.done() == std::vector<std::string>{"earlier", "later"});
}

TEST_CASE("holes of a stream without work pending are joined before memory grows") {
  RemapTest test;
  const Stream own = test.stream();
  const Stream other = test.stream();
  test.make_holes(8, own);
  test.make_holes(8, other);
  test.simulator.run_all();
  const Allocation large = test.allocate(8 * kGranule, own);
  CHECK(test.reserved() == 16 * kGranule);
  CHECK(test.counters().stream_waits_inserted == 0);
  CHECK(test.all_hold());
}

TEST_CASE("a use that was recorded on a block of holes defers the reuse of each of them") {
  RemapTest test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  test.make_holes(kDeviceGranules, own);
  Allocation large = test.allocate(kDeviceBytes / 2, own);
  const void* const data = large.data();
  test.simulator.run_all();
  large.record_stream(user);
  test.log.submit(user, "use");
  test.free(large);
  CHECK(test.counters().blocks_pending.current == 1);
  CHECK(test.counters().bytes_active.current == kDeviceBytes);
  const std::vector<BlockInfo> blocks = blocks_at(test.memory.snapshot(), data, kDeviceBytes / 2);
  REQUIRE(blocks.size() == kDeviceGranules / 2);
  for (const BlockInfo& block : blocks) CHECK(block.state == BlockState::pending);
  const Allocation small = test.allocate(kGranule, own);  // has to wait for the use
  CHECK(test.log.is_done("use"));
  CHECK(test.counters().blocks_pending.current == 0);
  const Allocation rest = test.allocate(kDeviceBytes / 2 - kGranule, own);
  CHECK(test.all_hold());
}

TEST_CASE("a block of holes outlives its stream, and is reused behind that stream's work") {
  RemapTest test;
  const Stream next = test.stream();
  Allocation large;
  {
    const Stream gone = test.stream();
    test.make_holes(kDeviceGranules, gone);
    large = test.allocate(kDeviceBytes / 2, gone);
    test.log.submit(gone, "earlier");
  }
  CHECK_FALSE(test.log.is_done("earlier"));
  test.free(large);
  const Allocation again = test.allocate(kDeviceBytes / 2 - 512, next);
  test.log.submit(next, "later");
  CHECK(test.all_hold());
  CHECK(test.log.done() == std::vector<std::string>{"earlier", "later"});
}

}  // namespace page_remap_streams_test
