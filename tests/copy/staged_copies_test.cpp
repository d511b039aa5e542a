// SPDX-License-Identifier: Apache-2.0
// The lanes of staged copies, and how many entries of a stream's queue a copy takes.
#include "copy/staged/staged_copies.hpp"

#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/direct/direct_transfer.hpp"
#include "copy/operand/ranges_copy.hpp"
#include "copy/operand/rows_copy.hpp"
#include "copy/staged_fixture.hpp"
#include "support/foreign_stream.hpp"

namespace staged_copies_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;

/// The most entries that the first part of such a copy to the host can have in the queue.
std::size_t entries_of_first_part(StagedTest& test, StreamRef stream,
                                  std::unique_ptr<DeviceSide> device, std::size_t entries_of_copy) {
  Bytes target(kSlot);
  StagedCopy copy(
      stream,
      {.direction = StagedTest::Direction::to_host,
       .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(target.data())),
       .device = std::move(device),
       .bytes = 4'000 * kSlot},
      *test.memory.try_take(4'000 * kSlot));
  const std::size_t chunks = copy.chunks_with_room();
  const std::size_t marks = chunks / (copy.staging().slots.size() / 2);
  copy.end_device();  // nothing was submitted
  copy.release();
  return chunks * (2 + entries_of_copy) + marks;
}

}  // namespace

TEST_CASE("copies of a stream do not wait for those of a destroyed stream with its handle") {
  TappedDevice test(staged_config(sim::Progress::manual));
  PinnedAllocator pinned(test.registry, {});
  const ContextScope scope(test.context);
  CUdeviceptr device = 0;
  test.driver.mem_alloc(&device, kSlot);
  {
    StagedCopies copies(test.registry, pinned, {.workers = 1, .file_workers = 1});
    const StreamRef stream = disown(test.stream());
    test.log.submit(stream, "kernel");
    Bytes source = pattern(kSlot, 1);
    std::vector<HostWork::CopyPtr> started;
    const auto start = [&] {
      started.push_back(copies.start(
          stream,
          {.direction = StagedRoute::Direction::to_device,
           .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
           .device = std::make_unique<LinearDevice>(reinterpret_cast<std::byte*>(device)),
           .bytes = kSlot},
          0));
      return started.back()->lane;
    };
    const HostWork::LanePtr lane = start();
    CHECK(start() == lane);
    test.context.retire_stream(stream.native());
    CHECK(start() != lane);
    for (const HostWork::CopyPtr& copy : started) copies.work().complete(copy);
    destroy_disowned(stream);
  }
  test.driver.mem_free(device);
}

TEST_CASE("a copy submits a bounded number of queue entries at a time, whatever its layout") {
  StagedTest test(staged_config(sim::Progress::manual));
  const Stream stream = test.stream();
  std::byte* const device = test.allocate(kSlot);
  CHECK(entries_of_first_part(test, stream, std::make_unique<LinearDevice>(device), 1) <=
        StagedCopy::kEntriesMax);
  // A chunk ends within a row: the rest of one, whole ones, and the begin of another.
  const Rows rows{.data = device, .pitch = 2'000, .row_bytes = 1'001};
  CHECK(entries_of_first_part(test, stream, std::make_unique<RowsDevice>(rows), 3) <=
        StagedCopy::kEntriesMax);
  const auto scattered = [&] {
    Scattered ranges;
    for (std::size_t range = 0; range < 4'000 * 8; ++range) ranges.add(device, kSlot / 8, false);
    return ranges;
  };
  for (const Batching& one_by_one : {kNoBatching, Batching{kSlot / 8 + 1}}) {
    CHECK(entries_of_first_part(test, stream,
                                std::make_unique<ScatteredDevice>(scattered(), one_by_one),
                                8) <= StagedCopy::kEntriesMax);
  }
  CHECK(entries_of_first_part(test, stream,
                              std::make_unique<ScatteredDevice>(scattered(), Batching{0}),
                              1) <= StagedCopy::kEntriesMax);
}

TEST_CASE("a transfer releases the event of each completed step except the last") {
  TappedDevice test(staged_config(sim::Progress::eager));
  EventPool few(test.context, {.events_max = 5});
  const Stream stream = test.stream();
  DirectTransfer transfer(5);
  for (std::size_t step = 0; step < 5; ++step) {
    EventLease mark = few.acquire();
    mark->record(stream);
    transfer.add_step(std::move(mark), 1);
  }
  stream.ref().sync();
  CHECK(transfer.is_done());
  CHECK(transfer.bytes_done() == 5);
  std::vector<EventLease> others;
  for (std::size_t event = 0; event < 4; ++event) others.push_back(few.acquire());
  transfer.wait();
}

TEST_CASE("a failed transfer does not count its bytes as done") {
  TappedDevice test(staged_config(sim::Progress::manual));
  const Stream stream = test.stream();
  DirectTransfer transfer(7);
  test.log.submit(stream, "kernel");
  EventLease mark = test.events.acquire();
  mark->record(stream);
  transfer.add_step(std::move(mark), 7);
  test.tap.refuse(DriverCall::event_synchronize, CUDA_ERROR_LAUNCH_FAILED);
  transfer.wait();
  CHECK(transfer.failure() != nullptr);
  CHECK(transfer.bytes_done() == 0);
}

}  // namespace staged_copies_test
