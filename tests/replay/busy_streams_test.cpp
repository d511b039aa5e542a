// SPDX-License-Identifier: Apache-2.0
// The benchmark `busy_streams`: its model is computed by hand here, and what it runs is judged by
// the simulated driver's checks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "peers/berth_allocator.hpp"
#include "replay/traces.hpp"
#include "workloads/busy_program.hpp"
#include "workloads/busy_replay.hpp"
#include "workloads/fluid_bound.hpp"
#include "workloads/synthetic_traces.hpp"

using namespace berth;
using namespace berth::bench;
using namespace berth::test;

namespace {

constexpr std::uint64_t kLaunchNs = 2'300;

BusyOptions busy(std::uint64_t kernel_ns, int passes = 1) {
  BusyOptions options;
  options.kernel_ns = kernel_ns;
  options.passes = passes;
  return options;
}

TraceEvent requested(std::int64_t id, std::uint64_t bytes, std::int32_t stream) {
  return event(TraceOp::free_requested, id, bytes, stream);
}

/// Reserved bytes of the bound after the passes that the options ask for.
std::uint64_t reserved(const Trace& trace, const BusyOptions& options) {
  const BusyProgram program(trace, options);
  FluidBound bound(program, options);
  for (int pass = 0; pass < options.passes; ++pass) bound.step();
  return bound.bytes_reserved();
}

/// A block of stream 0 that is freed before stream 1 wants as much; `between` requests of one byte
/// of stream 1 lie between the two.
Trace hand_over(std::int64_t between, std::uint64_t bytes = 4_MiB) {
  std::vector<TraceEvent> events = {alloc(1, bytes, 0), release(1, bytes, 0)};
  for (std::int64_t id = 0; id < between; ++id) events.push_back(alloc(10 + id, 1, 1));
  events.push_back(alloc(2, bytes, 1));
  events.push_back(alloc(3, 1, 1));
  return make_trace(events);
}

Trace synthetic(const std::string& name) {
  for (const SyntheticTrace& trace : synthetic_traces())
    if (trace.name == name) return trace.make();
  FAIL("no such trace: " << name);
  return {};
}

/// The first `count` rows.
Trace shortened(Trace trace, std::size_t count) {
  trace.events.resize(std::min(count, trace.events.size()));
  return trace;
}

BusyFigures measure(const Trace& trace, const BusyOptions& options) {
  return measure_busy<BerthAllocator>(BusyProgram(trace, options), options);
}

}  // namespace

TEST_CASE("without work the bound is the peak of live bytes") {
  CHECK(reserved(hand_over(0), busy(0)) == 4_MiB + 1);
}

TEST_CASE("memory with work pending serves its own stream and no other") {
  CHECK(reserved(hand_over(0), busy(1'000'000)) == 8_MiB + 1);
  const Trace own = make_trace(
      {alloc(1, 4_MiB), release(1, 4_MiB), alloc(2, 3_MiB), release(2, 3_MiB), alloc(3, 2_MiB)});
  CHECK(reserved(own, busy(1'000'000)) == 4_MiB);
}

TEST_CASE("memory serves every stream from the moment at which its work is done") {
  // Queued after 2.3 us, done after 5.3 us; a request of one byte lets the host be at 4.6 us, two
  // 6.9. What comes last is served by the block that was not done in time for the one before.
  CHECK(reserved(hand_over(1), busy(3'000)) == 8_MiB + 1);
  CHECK(reserved(hand_over(2), busy(3'000)) == 4_MiB + 3);
  // Done just when the host is there.
  CHECK(reserved(hand_over(1), busy(kLaunchNs)) == 4_MiB + 2);
}

TEST_CASE("a stream reuses its latest free first") {
  std::vector<TraceEvent> events = {
      alloc(1, 4_MiB, 0), alloc(4, 1, 1),       release(1, 4_MiB, 0),  // done at 22.3 us
      alloc(2, 3_MiB, 0), release(2, 3_MiB, 0),                        // of 1; done at 42.3 us
      alloc(3, 3_MiB, 0),                                              // all of 2
  };
  // The last of them is asked for at 23.0 us, and is served by the rest of 1.
  for (std::int64_t id = 10; id < 17; ++id) events.push_back(alloc(id, 1, 1));
  events.push_back(alloc(5, 1_MiB - 1, 1));
  CHECK(reserved(make_trace(events), busy(20'000)) == 4_MiB + 1 + 6);
}

TEST_CASE("memory that another stream uses is not reused before that work is done") {
  const auto trace = [](const std::string& users) {
    Trace made = make_trace(
        {alloc(1, 4_MiB, 0), requested(1, 4_MiB, 0), alloc(2, 4_MiB, 0), alloc(3, 1, 1)});
    made.header.emplace_back("users", users);
    return made;
  };
  CHECK(reserved(trace("1"), busy(1'000'000)) == 8_MiB + 1);
  CHECK(reserved(trace("0"), busy(1'000'000)) == 4_MiB + 1);
  BusyOptions none = busy(1'000'000);
  none.other_uses = OtherUses::none;
  CHECK(reserved(trace("1"), none) == 4_MiB + 1);
}

TEST_CASE("a stream that waits for another is done after it") {
  const BusyOptions options = busy(4'000);
  BusyProgram program(make_trace({alloc(1, 4_MiB, 0), alloc(2, 4_MiB, 1), release(2, 4_MiB, 1),
                                  alloc(3, 1, 2), alloc(4, 1, 2), alloc(5, 4_MiB, 2)}),
                      options);
  const auto reserved_of_program = [&] {
    FluidBound bound(program, options);
    bound.step();
    return bound.bytes_reserved();
  };
  // Stream 1 is done at 8.6 us, and the last request comes at 9.2 us.
  CHECK(reserved_of_program() == 8_MiB + 2);
  // Stream 0 is done at 6.3 us, stream 1 at 10.3 us, and the last request comes at 9.7 us.
  program.operations[1].other_stream = 0;
  CHECK(reserved_of_program() == 12_MiB + 2);
}

TEST_CASE("a pass that ends with a wait leaves nothing pending to the next") {
  std::vector<TraceEvent> events = {alloc(1, 4_MiB, 1), release(1, 4_MiB, 1)};
  for (std::int64_t id = 10; id < 20; ++id) events.push_back(alloc(id, 1, 2));
  events.push_back(alloc(2, 4_MiB, 0));  // what stream 1 has freed, which is done
  BusyOptions options = busy(10'000, 2);
  CHECK(reserved(make_trace(events), options) == 8_MiB + 10);
  options.sync = true;
  CHECK(reserved(make_trace(events), options) == 4_MiB + 10);
}

TEST_CASE("the bound is the peak of live and pending bytes") {
  for (const std::string name : {"own-pipeline3", "own-sharded4"}) {
    for (const std::uint64_t kernel_ns : {0u, 3'000u, 20'000u, 200'000u}) {
      CAPTURE(name);
      CAPTURE(kernel_ns);
      BusyOptions options = busy(kernel_ns, 3);
      options.dependencies = true;
      const BusyProgram program(synthetic(name), options);
      FluidBound bound(program, options);
      for (int pass = 0; pass < options.passes; ++pass) bound.step();
      CHECK(bound.bytes_reserved() == bound.bytes_live_or_pending_peak());
      if (kernel_ns == 0) CHECK(bound.waste() == 0);
      if (kernel_ns == 200'000) CHECK(bound.waste() > 0);
    }
  }
}

TEST_CASE("a seed determines the program") {
  BusyOptions options = busy(1'000);
  options.dependencies = true;
  const auto waits = [&] {
    std::vector<std::uint32_t> others;
    for (const BusyOperation& operation :
         BusyProgram(synthetic("own-sharded4"), options).operations)
      if (operation.allocates) others.push_back(operation.other_stream);
    return others;
  };
  const std::vector<std::uint32_t> first = waits();
  const auto count = std::size_t(std::ranges::count_if(
      first, [](std::uint32_t other) { return other != BusyOperation::kNone; }));
  CHECK(count > first.size() / kDependencyInterval / 2);
  CHECK(count < first.size() / kDependencyInterval * 2);
  CHECK(waits() == first);
  options.seed = 2;
  CHECK(waits() != first);
}

TEST_CASE("blocks freed by the last rows of a trace are freed at the end of the pass") {
  const BusyProgram program(
      make_trace({alloc(1, 100), alloc(2, 200), alloc(3, 300), release(1, 100), alloc(4, 400),
                  release(4, 400), release(2, 200)}),
      busy(0));
  CHECK(program.operations.size() == 5);
  std::vector<std::uint64_t> bytes;
  for (const BusyOperation& operation : program.last_frees) bytes.push_back(operation.bytes);
  CHECK(bytes == std::vector<std::uint64_t>{400, 200, 300});
}

TEST_CASE("another quarter of the blocks persists in each pass and counts in the next") {
  std::vector<TraceEvent> events;
  for (std::int64_t id = 0; id < 400; ++id) events.push_back(alloc(id, 1_MiB));
  BusyOptions options = busy(0, 3);
  options.persist = true;
  const BusyProgram program(make_trace(events), options);
  std::array<std::vector<bool>, 2> persists;
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t index = 0; index < 400; ++index)
      persists[std::size_t(pass)].push_back(program.persists(pass, index));
  const auto kept = std::ranges::count(persists[0], true);
  CHECK(kept > 60);
  CHECK(kept < 140);
  CHECK(persists[0] != persists[1]);

  const BusyFigures figures = measure_busy<BerthAllocator>(program, options);
  CHECK(figures.passes[0].bytes_live_peak == 400_MiB);
  CHECK(figures.passes[1].bytes_live_peak == 400_MiB + std::uint64_t(kept) * 1_MiB);
  CHECK(figures.passes[1].bytes_reserved_peak >= figures.passes[1].bytes_live_peak);
}

TEST_CASE("a header that names no streams is refused") {
  Trace trace = make_trace({alloc(1, 1)});
  trace.header.emplace_back("users", "0 x");
  CHECK_THROWS_WITH_AS(
      BusyProgram(trace, busy(0)),
      "made by hand: users: \"x\" is no stream; accepted: numbers of streams, with spaces",
      InvalidArgument);
}

TEST_CASE("the allocator sees pending work, and its driver calls take virtual time") {
  // As the bound: nothing of stream 0 for stream 1 while it works.
  CHECK(measure(hand_over(0), busy(0)).passes[0].bytes_reserved_peak < 8_MiB);
  CHECK(measure(hand_over(0), busy(1'000'000'000)).passes[0].bytes_reserved_peak >= 8_MiB);
  CHECK(measure(hand_over(0), busy(0)).passes[0].virtual_ns > 0);
}

TEST_CASE("an allocator without stream waits needs at least the bound of its own timing") {
  for (const std::string name : {"own-pipeline3", "own-sharded4"}) {
    for (const std::uint64_t kernel_ns : {3'000u, 20'000u, 200'000u}) {
      CAPTURE(name);
      CAPTURE(kernel_ns);
      BusyOptions options = busy(kernel_ns, 3);
      options.dependencies = options.sync = options.persist = true;
      DeviceAllocatorOptions without_waits;
      without_waits.cross_stream_reuse = CrossStreamReuse::when_idle;
      const BusyFigures figures = measure_busy<BerthAllocator>(
          BusyProgram(shortened(synthetic(name), 3000), options), options, without_waits);
      if (kernel_ns == 200'000) CHECK(figures.passes[2].bound_in_its_time > 0);
      CHECK(figures.waste(3) >= figures.passes[2].bound_in_its_time);
    }
  }
}

TEST_CASE("the same program makes the same calls at the same times") {
  BusyOptions options = busy(20'000, 3);
  options.dependencies = options.persist = true;
  options.threads = 2;
  const Trace trace = shortened(synthetic("own-pipeline3"), 3000);
  const BusyFigures first = measure(trace, options);
  const BusyFigures second = measure(trace, options);
  for (std::size_t pass = 0; pass < 3; ++pass) {
    CAPTURE(pass);
    CHECK(first.passes[pass].calls == second.passes[pass].calls);
    CHECK(first.passes[pass].virtual_ns == second.passes[pass].virtual_ns);
    CHECK(first.passes[pass].bytes_reserved_peak == second.passes[pass].bytes_reserved_peak);
  }
}

TEST_CASE("all uses of a byte are ordered") {
  // A finding that nobody takes ends the process.
  for (const OtherUses uses : {OtherUses::record_stream, OtherUses::record_use}) {
    for (const std::string name : {"own-pipeline3", "own-sharded4"}) {
      BusyOptions options = busy(20'000, 3);
      options.dependencies = options.persist = options.checks = true;
      options.other_uses = uses;
      options.threads = 2;
      const BusyFigures figures = measure(shortened(synthetic(name), 2000), options);
      CHECK(figures.passes[0].counters->frees_deferred > 0);
      CHECK(figures.passes[0].refused == 0);
    }
  }
}

TEST_CASE("threads take turns of up to kTurnMax operations") {
  BusyOptions options = busy(0);
  const Trace trace = synthetic("own-rotation8");
  CHECK(turns_of(BusyProgram(trace, options)) == std::vector<std::size_t>{0});
  options.threads = 2;
  const BusyProgram program(trace, options);
  const std::vector<std::size_t> turns = turns_of(program);
  CHECK(turns.size() > program.operations.size() / kTurnMax);
  CHECK(turns.front() == 0);
  CHECK(turns.back() < program.operations.size());
  for (std::size_t index = 1; index < turns.size(); ++index) {
    REQUIRE(turns[index] > turns[index - 1]);
    REQUIRE(turns[index] - turns[index - 1] <= kTurnMax);
  }
}

TEST_CASE("two threads that take turns on one stream make no driver call in the fourth pass") {
  for (const std::string name : {"own-rotation2", "own-rotation64", "own-rotation512"}) {
    CAPTURE(name);
    BusyOptions options = busy(20'000, 4);
    options.threads = 2;
    CHECK(total(measure(synthetic(name), options).passes[3].calls) == 0);
  }
}

TEST_CASE("a synthetic trace satisfies the rules of the trace reader") {
  for (const SyntheticTrace& made : synthetic_traces()) {
    CAPTURE(made.name);
    const Trace trace = made.make();
    CHECK(trace.name == made.name);
    std::set<std::int64_t> live;
    std::set<std::int64_t> requested_frees;
    for (const TraceEvent& row : trace.events) {
      if (row.op == TraceOp::alloc) REQUIRE(live.insert(row.id).second);
      if (row.op == TraceOp::free_requested) REQUIRE(requested_frees.insert(row.id).second);
      if (row.op == TraceOp::free_completed) REQUIRE(requested_frees.erase(row.id) == 1);
      if (row.op == TraceOp::free || row.op == TraceOp::free_completed)
        REQUIRE(live.erase(row.id) == 1);
    }
    CHECK(requested_frees.empty());
  }
}
