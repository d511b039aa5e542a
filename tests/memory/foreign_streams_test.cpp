// SPDX-License-Identifier: Apache-2.0
// Streams that berth does not own, and that may be destroyed without notice.
#include <thread>
#include <vector>

#include "memory/allocator_fixture.hpp"
#include "memory/memory_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"
#include "support/foreign_stream.hpp"

namespace foreign_streams_test {

using namespace berth;
using namespace berth::test;

namespace {

struct ForeignTest : MemoryTest {
  ForeignTest() : MemoryTest(small_device(64_MiB)) {}
  StreamRef foreign() { return disown(stream()); }
};

}  // namespace

TEST_CASE_FIXTURE(ForeignTest, "a stream destroyed without retire_stream() blocks no request") {
  const StreamRef gone = foreign();
  const Stream own = stream();
  { const Allocation cached = memory.allocate(40_MiB, gone); }
  destroy_disowned(gone);
  const Allocation block = memory.allocate(8_MiB, own);  // a miss
  CHECK(block.data() != nullptr);
  CHECK(memory.allocate(48_MiB, own).data() != nullptr);  // what it left, once the device is idle
  memory.trim();
  memory.retire_stream(own);
  memory.validate();
}

TEST_CASE_FIXTURE(ForeignTest, "a use by a destroyed stream does not last for ever") {
  const StreamRef gone = foreign();
  const Stream own = stream();
  Allocation block = memory.allocate(40_MiB, own);
  block.record_stream(gone);
  destroy_disowned(gone);
  block.reset();
  CHECK(memory.allocate(48_MiB, own).data() != nullptr);
  memory.validate();
}

TEST_CASE_FIXTURE(
    ForeignTest,
    "memory freed on a foreign stream is reusable after the next call that names the stream") {
  const StreamRef named = foreign();
  const Stream own = stream();
  { const Allocation cached = memory.allocate(40_MiB, named); }
  const Allocation first = memory.allocate(2_MiB, own);
  { const Allocation again = memory.allocate(50_MiB, named); }  // a miss, which marks
  CHECK(memory.allocate(48_MiB, own).data() != nullptr);
  memory.retire_stream(named);
  destroy_disowned(named);
}

TEST_CASE_FIXTURE(AllocatorFixture, "a request marks what its foreign stream has freed so far") {
  const Stream own = stream();
  const StreamRef named = disown(stream());
  void* const known = allocate(2_MiB, own);
  void* const live = allocate(1_MiB, named);
  void* const hole = allocate(1_MiB, named);  // of the same granule, so that nothing else takes it
  log.submit(named, "use");
  free(hole);
  void* const rest = allocate(60_MiB, named);  // a miss; the device is full then
  log.submit(named, "later");
  void* const data = allocate(1_MiB, own);
  CHECK(data == hole);
  CHECK((log.is_done("use") || runs_behind(own, "use")));
  CHECK_FALSE(log.is_done("later"));
  for (void* const each : {known, live, rest, data}) free(each);
  simulator.run_all();
  destroy_disowned(named);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a mark of a foreign stream does not cover what is freed while it is recorded") {
  const Stream own = stream();
  const StreamRef named = disown(stream());
  void* const known = allocate(2_MiB, own);
  void* const live = allocate(1_MiB, named);
  void* const early = allocate(1_MiB, named);
  void* const late = allocate(4_MiB, named);
  void* const rest = allocate(56_MiB, named);  // the device is full then
  free(early);
  const Stream blocker = stream();
  log.submit(blocker, "slow");
  const SharedEvent slow = record(blocker);
  tap.after(DriverCall::event_record, [&] {
    named.wait(slow->ref());  // so that the mark passes, and the use does not
    log.submit(named, "late use");
    // Under a lock that a check of the heap wants, and on a thread that caches nothing yet.
    std::thread([&] { allocator->deallocate(late); }).join();
  });
  CHECK_THROWS_AS(allocator->allocate_slow(62_MiB, named, false), OutOfMemory);  // marks
  run_stream(named);
  void* const next = allocate(4_MiB, own);
  CHECK((log.is_done("late use") || runs_behind(own, "late use")));
  for (void* const each : {known, live, rest, next}) free(each);
  simulator.run_all();
  destroy_disowned(named);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "calls for other streams pass no foreign stream to the driver") {
  const Stream own = stream();
  const StreamRef foreign = disown(stream());
  free(allocate(40_MiB, foreign));
  const std::uint64_t queries = simulator.calls("cuStreamQuery");
  void* const used = allocate(2_MiB, own);
  allocator->record_stream(used, foreign);
  const auto questions = [&] {
    return simulator.calls("cuStreamQuery") + simulator.calls("cuStreamIsCapturing") +
           simulator.calls("cuStreamGetCaptureInfo");
  };
  const std::uint64_t before = questions();
  free(used);
  CHECK(questions() == before);
  void* const missed = allocate(30_MiB, own);  // more than the device has left
  CHECK(simulator.calls("cuStreamQuery") == queries);
  free(missed);
  simulator.run_all();
  destroy_disowned(foreign);
}

TEST_CASE_FIXTURE(AllocatorFixture, "no mark is recorded on a foreign stream that is captured") {
  const Stream own = stream();
  const StreamRef captured = disown(stream());
  void* const known = allocate(2_MiB, own);
  free(allocate(4_MiB, captured));
  const auto records = [&] { return simulator.calls("cuEventRecord"); };
  const std::uint64_t before = records();
  begin_capture(captured);
  CHECK_THROWS_AS(allocate(30_MiB, captured), InvalidArgument);  // it would have to grow
  CHECK(records() == before);
  { const CapturedGraph graph(captured); }
  void* const data = allocate(30_MiB, captured);
  CHECK(records() > before);
  for (void* const each : {known, data}) free(each);
  simulator.run_all();
  destroy_disowned(captured);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "close() waits for foreign streams, also for those that have freed nothing") {
  const StreamRef foreign = disown(stream());
  void* const live = allocate(4_MiB, foreign);
  log.submit(foreign, "work");
  allocator->close();
  CHECK(log.is_done("work"));
  free(live);
  destroy_disowned(foreign);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "memory that a foreign stream got behind a wait is not covered by an older mark") {
  const Stream busy = stream();
  const Stream third = stream();
  const StreamRef foreign = disown(stream());
  void* const early = allocate(4_MiB, foreign);
  void* const large = allocate(40_MiB, busy);
  log.submit(busy, "long");
  free(large);
  free(early);
  void* const marking = allocate(24_MiB, foreign);  // a miss, which marks; the device is full then
  void* const taken = allocate(30_MiB, foreign);    // the memory of `busy`, behind a wait
  CHECK(runs_behind(foreign, "long"));
  void* const rest = allocate(8_MiB, third);
  CHECK((log.is_done("long") || runs_behind(third, "long")));  // what no mark covers is waited for
  for (void* const data : {marking, taken, rest}) free(data);
  simulator.run_all();
  destroy_disowned(foreign);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "quarantined memory of a destroyed stream does not block other memory") {
  const Stream idle = stream();
  const Stream other = stream();
  const StreamRef gone = disown(stream());
  free(allocate(2_MiB, gone));
  destroy_disowned(gone);
  context.retire_stream(gone.native());  // too late: it is quarantined
  std::vector<void*> row;
  for (int index = 0; index < 6; ++index) row.push_back(allocate(2_MiB, idle));
  for (const std::size_t index : {0U, 2U, 4U}) free(row[index]);
  void* const data = allocate(20_MiB, other);
  CHECK(counters().blocks_passed_on == 3);  // all of it: borrowed, it counts once
  free(data);
  for (const std::size_t index : {1U, 3U, 5U}) free(row[index]);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a stream destroyed after a wait for the device may have had more work") {
  const Stream next = stream();
  const StreamRef gone = disown(stream());
  void* const live = allocate(8_MiB, gone);
  free(allocate(40_MiB, gone));
  log.submit(gone, "early work");
  tap.after(DriverCall::ctx_synchronize, [&] {
    log.submit(gone, "late work");
    destroy_disowned(gone);
    context.retire_stream(gone.native());  // too late: it is quarantined
  });
  void* const rest = allocate(48_MiB, next);
  CHECK(log.is_done("early work"));
  REQUIRE_FALSE(log.is_done("late work"));
  free(live);
  void* const data = allocate(8_MiB, next);
  CHECK((data != live || log.is_done("late work")));
  for (void* const each : {rest, data}) free(each);
}

}  // namespace foreign_streams_test
