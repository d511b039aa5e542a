// SPDX-License-Identifier: Apache-2.0
#include "tool/replay.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "replay/traces.hpp"

using namespace berth;
using namespace berth::tool;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(0);

ReplayPlan plan_of(std::vector<TraceEvent> events) {
  return plan_replay(make_trace(std::move(events))).front();
}

ReplayResult replay_fresh(const ReplayPlan& plan, const ReplayOptions& options = {},
                          const DeviceAllocatorOptions& allocator = {}) {
  RuntimeOptions runtime_options;
  runtime_options.device_allocator = allocator;
  Runtime runtime(runtime_options);
  return replay(runtime, kDevice, plan, options);
}

ReplayOptions validated(int passes = 2) {
  ReplayOptions options;
  options.passes = passes;
  options.validate = true;
  return options;
}

bool same(const std::vector<DriverCallCount>& a, const std::vector<DriverCallCount>& b) {
  return std::ranges::equal(a, b, [](const DriverCallCount& x, const DriverCallCount& y) {
    return x.function == y.function && x.calls == y.calls;
  });
}

/// Blocks of many sizes on three streams, some of which outlive the trace.
ReplayPlan mixed_plan() {
  std::vector<TraceEvent> events;
  for (std::int64_t id = 0; id < 400; ++id) {
    const auto bytes = std::uint64_t(1 + id * id * 97 % 3'000'000);
    events.push_back(alloc(id, bytes, std::int32_t(id % 3)));
    if (id % 4 != 0 && id >= 20) {
      TraceEvent end = events[events.size() - 2];
      end.op = TraceOp::free;
      if (events[events.size() - 2].op == TraceOp::alloc) events.push_back(end);
    }
  }
  return plan_of(std::move(events));
}

}  // namespace

TEST_CASE("waste is peak reserved over peak live, as computed by hand") {
  // 3 MiB need two granules of 2 MiB; the 1 MiB beside it fills the second.
  const ReplayResult alone = replay_fresh(plan_of({alloc(1, 3_MiB), release(1, 3_MiB)}));
  CHECK(alone.bytes_live_peak == 3_MiB);
  CHECK(alone.bytes_reserved_peak == 4_MiB);
  CHECK(alone.waste() == doctest::Approx(1.0 / 3));

  const ReplayResult filled = replay_fresh(plan_of({alloc(1, 3_MiB), alloc(2, 1_MiB)}));
  CHECK(filled.bytes_live_peak == 4_MiB);
  CHECK(filled.waste() == doctest::Approx(0.0));
}

TEST_CASE("the live peak counts requested bytes, not rounded ones") {
  const ReplayResult result = replay_fresh(plan_of({alloc(1, 1), alloc(2, 513)}));
  CHECK(result.bytes_live_peak == 514);
}

TEST_CASE("the second pass of a program finds all its memory cached") {
  const ReplayResult result =
      replay_fresh(plan_of({alloc(1, 3_MiB), alloc(2, 5_MiB), release(1, 3_MiB)}));
  CHECK(total_calls(result.driver_calls) > 0);
  REQUIRE(result.driver_calls_steady.has_value());
  CHECK(total_calls(*result.driver_calls_steady) == 0);
}

TEST_CASE("the same trace makes the same driver calls every time") {
  const ReplayPlan plan = mixed_plan();
  const ReplayResult first = replay_fresh(plan);
  const ReplayResult second = replay_fresh(plan);
  CHECK(same(first.driver_calls, second.driver_calls));
  CHECK(same(*first.driver_calls_steady, *second.driver_calls_steady));
  CHECK(first.bytes_reserved_peak == second.bytes_reserved_peak);
}

TEST_CASE("refused requests are counted, and their frees skipped") {
  DeviceAllocatorOptions limited;
  limited.limits.bytes_reserved_max = 4_MiB;
  const ReplayPlan plan = plan_of({
      alloc(1, 3_MiB),
      alloc(2, 3_MiB),
      alloc(3, 1_KiB),
      release(2, 3_MiB),
      release(1, 3_MiB),
      alloc(4, 2_MiB),
  });
  const ReplayResult result = replay_fresh(plan, validated(3), limited);
  CHECK(result.out_of_memory == 3);
  CHECK(result.bytes_live_peak == 3_MiB + 1_KiB);
  CHECK(result.bytes_reserved_peak <= 4_MiB);
}

TEST_CASE("waste is undefined if no request succeeded") {
  DeviceAllocatorOptions limited;
  limited.limits.bytes_reserved_max = 2_MiB;
  const ReplayResult result = replay_fresh(plan_of({alloc(1, 3_MiB)}), {}, limited);
  CHECK(result.bytes_live_peak == 0);
  CHECK_FALSE(result.waste().has_value());
}

TEST_CASE("a block that is still live after a pass is a leak") {
  Runtime runtime;
  const Allocation forgotten =
      runtime.memory(kDevice).allocate(1000, runtime.default_stream(kDevice));
  const ReplayPlan plan = plan_of({alloc(1, 100)});
  CHECK_THROWS_WITH_AS(replay(runtime, kDevice, plan, {}),
                       "leak: 1 blocks of 1024 bytes are live after everything was freed",
                       CheckFailure);
}

TEST_CASE("validation checks the allocator's counters against the replay's") {
  Runtime runtime;
  const Allocation not_of_the_replay =
      runtime.memory(kDevice).allocate(1000, runtime.default_stream(kDevice));
  const ReplayPlan plan = plan_of({alloc(1, 100)});
  CHECK_THROWS_WITH_AS(replay(runtime, kDevice, plan, validated()),
                       "after 2 operations: the allocator counts 1000 requested bytes, the replay "
                       "0",
                       CheckFailure);
}

TEST_CASE("a replay with many sizes and streams passes every check") {
  const ReplayPlan plan = mixed_plan();
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    DeviceAllocatorOptions allocator;
    allocator.virtual_memory = virtual_memory;
    const ReplayResult result = replay_fresh(plan, validated(), allocator);
    CHECK(result.operations == plan.operations.size());
    CHECK(result.out_of_memory == 0);
    CHECK(result.waste() > 0.0);
  }
}

TEST_CASE("a request of 0 bytes counts as an operation") {
  const ReplayResult result =
      replay_fresh(plan_of({alloc(1, 0), alloc(2, 8), release(1, 0)}), validated());
  CHECK(result.operations == 3);
  CHECK(result.out_of_memory == 0);
  CHECK(result.bytes_live_peak == 8);
}

TEST_CASE("time is measured on passes after the first, and not while validating") {
  const ReplayPlan plan = mixed_plan();
  ReplayOptions once;
  once.passes = 1;
  CHECK_FALSE(replay_fresh(plan, once).ns_per_operation.has_value());
  CHECK_FALSE(replay_fresh(plan, once).driver_calls_steady.has_value());
  CHECK_FALSE(replay_fresh(plan, validated()).ns_per_operation.has_value());
  CHECK(replay_fresh(plan).ns_per_operation > 0.0);
}

TEST_CASE("progress rises to every operation of every pass") {
  std::vector<TraceEvent> events;
  for (std::int64_t id = 0; id < 5000; ++id) {
    events.push_back(alloc(id, 512));
    events.push_back(release(id, 512));
  }
  std::vector<std::size_t> seen;
  ReplayOptions options;
  options.passes = 3;
  options.on_progress = [&seen](std::size_t done) { seen.push_back(done); };
  replay_fresh(plan_of(std::move(events)), options);
  CHECK(std::ranges::is_sorted(seen));
  CHECK(seen.size() > 3);
  CHECK(seen.back() == 30'000);
}

TEST_CASE("a replayer stops at a given operation with the memory of that moment live") {
  Runtime runtime;
  const ReplayPlan plan = plan_of({
      alloc(1, 1000),
      alloc(2, 2000, 1),
      release(1, 1000),
      alloc(3, 500),
  });
  Replayer replayer(runtime, kDevice, plan, false);
  const auto bytes_live = [&runtime] {
    return runtime.memory(kDevice).counters().bytes_requested.current;
  };
  replayer.run_to(plan.live_peak().operation + 1);
  CHECK(bytes_live() == 3000);
  replayer.run_to(3);
  CHECK(bytes_live() == 2000);
  replayer.run_to(4);
  CHECK(bytes_live() == 2500);
  replayer.finish_pass();
  CHECK(bytes_live() == 0);
  replayer.run_to(1);
  CHECK(bytes_live() == 1000);
}

TEST_CASE("a replayer that is dropped half way frees what it holds") {
  Runtime runtime;
  const ReplayPlan plan = plan_of({alloc(1, 1000), alloc(2, 2000)});
  { Replayer(runtime, kDevice, plan, false).run_to(2); }
  CHECK(runtime.memory(kDevice).counters().blocks_allocated.current == 0);
}

TEST_CASE("stream 0 is the legacy default stream, others are streams of their own") {
  Runtime runtime;
  const ReplayPlan plan = plan_of({alloc(1, 3_MiB, 0), alloc(2, 5_MiB, 1), alloc(3, 7_MiB, 2)});
  Replayer replayer(runtime, kDevice, plan, false);
  replayer.run_to(3);
  std::vector<CUstream_st*> streams(3, nullptr);
  for (const SegmentInfo& segment : runtime.memory(kDevice).snapshot().segments)
    for (const BlockInfo& block : segment.blocks)
      if (block.state == BlockState::allocated)
        streams.at(block.bytes_requested / 2_MiB - 1) = block.stream.value();
  CHECK(streams[0] == nullptr);
  CHECK(streams[1] != nullptr);
  CHECK(streams[2] != nullptr);
  CHECK(streams[1] != streams[2]);
  CHECK(runtime.streams(kDevice).leases_live() == 2);
}

TEST_CASE("a device that does not exist is refused") {
  Runtime runtime;
  const ReplayPlan plan = plan_of({alloc(1, 1)});
  CHECK_THROWS_AS(replay(runtime, Device::cuda(1000), plan, {}), InvalidArgument);
}
