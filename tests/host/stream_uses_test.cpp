// SPDX-License-Identifier: Apache-2.0
#include "memory/order/stream_uses.hpp"

#include <cstdint>

#include <doctest/doctest.h>

#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace stream_uses_test {

using namespace berth;
using namespace berth::test;

namespace {

struct UsesTest : TappedDevice {
  UsesTest() : TappedDevice(manual_progress()) {}
  ~UsesTest() { simulator.run_all(); }

  [[nodiscard]] StreamUses::Memory new_memory() {
    const MutexLock lock(uses.mutex);
    return uses.new_memory();
  }
  void add(StreamUses::Memory memory, StreamRef stream, RecordedEvent mark = {}) {
    const MutexLock lock(uses.mutex);
    uses.add(memory, stream, mark);
  }
  [[nodiscard]] bool has_uses(StreamUses::Memory memory) const {
    const MutexLock lock(uses.mutex);
    return uses.has_uses(memory);
  }
  void retire(StreamRef stream) { uses.stream_retiring(context, stream.native()); }
  [[nodiscard]] std::uint64_t waits() const {
    return simulator.calls("cuEventSynchronize") + simulator.calls("cuStreamSynchronize");
  }

  DeviceEventPools pools{registry};
  StreamUses uses{pools, "test", "it may end"};
};

}  // namespace

TEST_CASE_FIXTURE(UsesTest, "of two uses of a stream the later one counts") {
  const Stream user = stream();
  const StreamUses::Memory memory = new_memory();
  const RecordedEvent first = uses.record(user);
  log.submit(user, "work");
  const RecordedEvent second = uses.record(user);
  SUBCASE("added in order") {
    add(memory, user, first);
    add(memory, user, second);
  }
  SUBCASE("added out of order") {
    add(memory, user, second);
    add(memory, user, first);
  }
  SUBCASE("the end of the memory is the latest") {
    add(memory, user);
    add(memory, user, second);
  }
  CHECK_FALSE(uses.are_over(memory));
  uses.wait_for_all(memory);
  CHECK(log.is_done("work"));
  CHECK(waits() == 1);
  CHECK_FALSE(has_uses(memory));
}

TEST_CASE_FIXTURE(UsesTest, "uses of a destroyed stream are no longer found by its handle") {
  const Stream gone = stream();
  const StreamUses::Memory marked = new_memory();
  const StreamUses::Memory unmarked = new_memory();
  add(marked, gone, uses.record(gone));
  add(unmarked, gone);
  log.submit(gone, "work");
  retire(gone);
  const std::uint64_t queries = simulator.calls("cuStreamIsCapturing");
  add(marked, gone, uses.record(gone));  // as if the handle had come back
  add(unmarked, gone, uses.record(gone));
  CHECK_FALSE(uses.are_over(unmarked));
  CHECK(simulator.calls("cuStreamIsCapturing") == queries + 2);
  for (const StreamUses::Memory memory : {marked, unmarked}) {
    const std::uint64_t before = waits();
    CHECK(uses.wait_for_marked(memory));
    CHECK(waits() == before + 2);
    CHECK_FALSE(has_uses(memory));
  }
}

TEST_CASE_FIXTURE(UsesTest, "a use ends with a stream for which the host has waited") {
  const Stream gone = stream();
  const StreamUses::Memory memory = new_memory();
  add(memory, gone);
  log.submit(gone, "work");
  tap.refuse(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY);
  retire(gone);
  CHECK(log.is_done("work"));
  CHECK_FALSE(has_uses(memory));
}

TEST_CASE_FIXTURE(UsesTest, "work whose end is never known ends only by the wait for all uses") {
  const Stream gone = stream();
  const StreamUses::Memory memory = new_memory();
  add(memory, gone);
  tap.refuse_all(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  SUBCASE("the stream ends") {
    retire(gone);
    CHECK_FALSE(uses.are_over(memory));
    CHECK_FALSE(uses.wait_for_marked(memory));
    CHECK(has_uses(memory));
  }
  SUBCASE("the memory ends") {}
  uses.wait_for_all(memory);
  CHECK_FALSE(has_uses(memory));
  CHECK(reports.mention("so the completion of its work is unknown: it may end"));
}

}  // namespace stream_uses_test
