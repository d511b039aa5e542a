// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_plan.hpp"

#include <array>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "replay/traces.hpp"

using namespace berth;
using namespace berth::tool;
using namespace berth::test;

namespace {

ReplayPlan only_plan(const Trace& trace) {
  std::vector<ReplayPlan> plans = plan_replay(trace);
  REQUIRE(plans.size() == 1);
  return plans.front();
}

}  // namespace

TEST_CASE("the live peak counts requested bytes and gives the operation that reaches it first") {
  const ReplayPlan plan = only_plan(make_trace({
      alloc(1, 1000),
      alloc(2, 2001),
      release(1, 1000),
      alloc(3, 1000),
      release(2, 2001),
      release(3, 1000),
  }));
  CHECK(plan.operations.size() == 6);
  CHECK(plan.allocations == 3);
  CHECK(plan.live_peak().bytes == 3001);
  CHECK(plan.live_peak().operation == 1);
}

TEST_CASE("a refused request and its free do not count as live") {
  const ReplayPlan plan = only_plan(make_trace({
      alloc(1, 100),
      alloc(2, 5000),
      release(2, 5000),
      alloc(3, 10),
      release(1, 100),
  }));
  CHECK(plan.live_peak().bytes == 5100);
  const std::array<std::size_t, 1> refused = {1};
  CHECK(plan.live_peak(refused).bytes == 110);
  CHECK(plan.live_peak(refused).operation == 3);
}

TEST_CASE("there are as many slots as blocks live at once, and live blocks never share a slot") {
  const ReplayPlan plan = only_plan(make_trace({
      alloc(10, 1),
      alloc(11, 1),
      release(10, 1),
      alloc(12, 1),
      alloc(13, 1),
  }));
  CHECK(plan.slots == 3);
  const auto slot = [&plan](std::size_t operation) { return plan.operations[operation].slot; };
  CHECK(slot(2) == slot(0));
  CHECK(slot(3) != slot(1));
  CHECK(slot(4) != slot(1));
  CHECK(slot(4) != slot(3));
}

TEST_CASE("streams are numbered by first use behind the default stream") {
  const ReplayPlan plan = only_plan(make_trace({
      alloc(1, 1, 70),
      alloc(2, 1, 0),
      alloc(3, 1, 9),
      alloc(4, 1, 70),
  }));
  CHECK(plan.streams == 3);
  CHECK(plan.operations[0].stream == 1);
  CHECK(plan.operations[1].stream == 0);
  CHECK(plan.operations[2].stream == 2);
  CHECK(plan.operations[3].stream == 1);
}

TEST_CASE("a block is freed at free_completed if there is one") {
  const ReplayPlan plan = only_plan(make_trace({
      alloc(1, 100),
      event(TraceOp::free_requested, 1, 100),
      alloc(2, 50),
      event(TraceOp::free_completed, 1, 100),
  }));
  REQUIRE(plan.operations.size() == 3);
  CHECK(plan.operations[1].allocates);
  CHECK_FALSE(plan.operations[2].allocates);
  CHECK(plan.live_peak().bytes == 150);
}

TEST_CASE("a block is freed at free_requested if no free_completed follows") {
  const ReplayPlan plan = only_plan(make_trace({
      alloc(1, 100),
      event(TraceOp::free_requested, 1, 100),
      alloc(2, 50),
  }));
  REQUIRE(plan.operations.size() == 3);
  CHECK_FALSE(plan.operations[1].allocates);
  CHECK(plan.live_peak().bytes == 100);
}

TEST_CASE("events of the recorded allocator are ignored, and initially live blocks are not") {
  const ReplayPlan plan = only_plan(make_trace({
      event(TraceOp::init_segment, 1, 2_MiB),
      event(TraceOp::init_alloc, 1, 100),
      event(TraceOp::segment_alloc, 2, 20_MiB),
      event(TraceOp::segment_map, 3, 20_MiB),
      event(TraceOp::reserved_total, -1, 22_MiB),
      event(TraceOp::out_of_memory, -1, 99_MiB),
      event(TraceOp::snapshot, -1, 0),
      event(TraceOp::segment_unmap, 3, 20_MiB),
      event(TraceOp::segment_free, 2, 20_MiB),
  }));
  CHECK(plan.operations.size() == 1);
  CHECK(plan.live_peak().bytes == 100);
}

TEST_CASE("each recorded device has a plan of its own") {
  const std::vector<ReplayPlan> plans = plan_replay(make_trace({
      alloc(1, 100, 0, 3),
      alloc(2, 7, 5, 1),
      release(1, 100, 0, 3),
  }));
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].device == 1);
  CHECK(plans[0].live_peak().bytes == 7);
  CHECK(plans[0].streams == 2);
  CHECK(plans[1].device == 3);
  CHECK(plans[1].operations.size() == 2);
  CHECK(plans[1].streams == 1);
}

TEST_CASE("an inconsistent trace is refused by name") {
  CHECK_THROWS_WITH_AS(plan_replay(make_trace({alloc(5, 1), alloc(5, 1)})),
                       "made by hand: block 5 is allocated while it is live; accepted: one "
                       "allocation for each id",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(plan_replay(make_trace({alloc(5, 1), release(6, 1)})),
                       "made by hand: block 6 is freed but not live; accepted: one free after the "
                       "allocation",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(plan_replay(make_trace({event(TraceOp::snapshot, -1, 0)})),
                       "made by hand: nothing to replay; accepted: a trace with at least one alloc",
                       InvalidArgument);
}

TEST_CASE("more streams than an operation can name are refused") {
  std::vector<TraceEvent> events;
  for (std::int32_t stream = 0; stream <= 65535; ++stream)
    events.push_back(alloc(stream, 1, stream));
  CHECK(only_plan(make_trace(events)).streams == 65536);
  events.push_back(alloc(65536, 1, 65536));
  CHECK_THROWS_AS(plan_replay(make_trace(events)), InvalidArgument);
}
