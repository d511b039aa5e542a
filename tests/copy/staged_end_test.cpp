// SPDX-License-Identifier: Apache-2.0
// The end of a staged copy whose last call failed: its memory goes to the next copy only when the
// device has executed all that was submitted.
#include <cstddef>
#include <optional>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/staged_fixture.hpp"

namespace staged_end_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;

}  // namespace

TEST_CASE("a copy without its last mark holds its memory until its word has been written again") {
  struct Row {
    StagedRoute::Direction direction;
    int marks;       ///< up to the last one
    int entries;     ///< of the stream, up to the last step's word
    bool has_piece;  ///< between the last chunk and that word
  };
  for (const Row& row : {Row{StagedRoute::Direction::to_device, 1, 3, false},
                         Row{StagedRoute::Direction::to_host, 2, 5, true}}) {
    CAPTURE(row.marks);
    ManualStaged test;
    const Stream stream = test.stream();
    Bytes host(kSlot);
    std::byte* const device = test.allocate(kSlot);
    std::optional<Staging> next;
    bool was_in_use = false;
    test.tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN, row.marks);
    // The caller waits for the mark behind the second write of the word.
    test.tap.before(DriverCall::event_synchronize, [&] {
      for (int entry = 0; entry < row.entries; ++entry) {
        test.simulator.run_next(stream.ref().native());
        test.work.poll_progress();
        if (row.has_piece) test.work.process_piece();
      }
      was_in_use = test.memory.bytes_in_use() > 0;
      if (!was_in_use) next = test.memory.try_take(kSlot);
    });
    CHECK_THROWS_AS(test.start(row.direction, host.data(), device, kSlot, stream), DriverError);
    CHECK(was_in_use);
    test.simulator.run_all();
    CHECK(test.memory.bytes_in_use() == 0);
    if (next) CHECK(*next->progress == 0);
  }
}

}  // namespace staged_end_test
