// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_errors.hpp"

#include <string>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "heap/block_records.hpp"
#include "support/errors.hpp"

namespace memory_errors_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uintptr_t kBase = 0x40'0000;

const void* at(std::uintptr_t offset) {
  return reinterpret_cast<const void*>(kBase + offset);
}

Block& block_in(Block::State state) {
  static BlockRecords records;
  Block& block = records.make();
  block.address = kBase;
  block.bytes = 4096;
  block.set_state(state);
  return block;
}

OutOfMemoryNumbers numbers() {
  OutOfMemoryNumbers numbers{.allocator = "cuda:3",
                             .bytes_requested = 3'000'000,
                             .counters = {},
                             .bytes_reserved_max = MemoryBudget::kNoLimit,
                             .largest_free_block_bytes = 5_MiB,
                             .driver_free_bytes = 0,
                             .driver_total_bytes = 0};
  numbers.counters.bytes_reserved.current = 100_MiB;
  numbers.counters.bytes_active.current = 70_MiB;
  numbers.counters.bytes_allocated.current = 60_MiB;
  return numbers;
}

}  // namespace

TEST_CASE("an out of memory message has the request and the state of all reserved bytes") {
  const std::string text = describe_out_of_memory(numbers());
  CHECK(text ==
        "cuda:3 is out of memory: asked for 2.86 MiB (3000000 B); reserved 100 MiB, of which "
        "60.0 MiB live, 10.0 MiB freed but still in use by streams, 30.0 MiB cached (largest free "
        "block 5.00 MiB)");
}

TEST_CASE("an out of memory message has the limit where there is one, 0 included") {
  OutOfMemoryNumbers with_limit = numbers();
  with_limit.bytes_reserved_max = 128_MiB;
  CHECK(contains(describe_out_of_memory(with_limit), "; limit 128 MiB"));
  with_limit.bytes_reserved_by_others = 8_MiB;
  CHECK(contains(describe_out_of_memory(with_limit),
                 "; limit 128 MiB; other pools reserve 8.00 MiB"));
  with_limit.bytes_reserved_max = 0;
  CHECK(contains(describe_out_of_memory(with_limit), "; limit 0 B"));
  CHECK_FALSE(contains(describe_out_of_memory(numbers()), "limit"));
}

TEST_CASE("messages distinguish the headroom from a limit") {
  OutOfMemoryNumbers beside_others = numbers();
  beside_others.headroom_bytes = 10_MiB;
  CHECK(contains(describe_out_of_memory(beside_others), "block 5.00 MiB); headroom 10.0 MiB"));
  CHECK(contains(describe_impossible_request("cuda:0", 65_MiB, 54_MiB, Capacity::beside_headroom),
                 "(56623104 B), which is what the headroom leaves"));
  CHECK(contains(describe_impossible_request("cuda:0", 65_MiB, 54_MiB, Capacity::limited),
                 "which is the limit"));
  const std::string wake = describe_refused_wake({.allocator = "cuda:0/weights",
                                                  .bytes_needed = 20_MiB,
                                                  .bytes_reserved_max = MemoryBudget::kNoLimit,
                                                  .bytes_left = 4_MiB,
                                                  .headroom_bytes = 10_MiB,
                                                  .driver_free_bytes = 14_MiB,
                                                  .driver_total_bytes = 64_MiB});
  CHECK(wake ==
        "cuda:0/weights cannot wake: it needs 20.0 MiB (20971520 B); headroom 10.0 MiB; 4.00 MiB "
        "left to reserve; the driver has 14.0 MiB of 64.0 MiB free; it is still asleep, and can be "
        "woken when memory is available");
}

TEST_CASE("an out of memory message has the driver's numbers if queried, 0 B free included") {
  OutOfMemoryNumbers asked = numbers();
  asked.driver_total_bytes = 2_GiB;
  CHECK(contains(describe_out_of_memory(asked), "; the driver has 0 B of 2.00 GiB free"));
  asked.driver_free_bytes = 1_GiB;
  CHECK(contains(describe_out_of_memory(asked), "; the driver has 1.00 GiB of 2.00 GiB free"));
  CHECK_FALSE(contains(describe_out_of_memory(numbers()), "driver"));
}

TEST_CASE("a limit that leaves less than a granule is the reason") {
  OutOfMemoryNumbers small = numbers();
  small.bytes_requested = 10;
  small.granule_bytes = 2_MiB;
  small.bytes_reserved_max = 101_MiB;
  CHECK(contains(describe_out_of_memory(small),
                 "; limit 101 MiB, which leaves 1.00 MiB, less than one granule of 2.00 MiB that "
                 "memory is obtained in"));
  small.bytes_reserved_by_others = 1_MiB;
  CHECK_FALSE(contains(describe_out_of_memory(small), "granule"));  // nothing is left
  small.bytes_reserved_by_others = 0;
  small.bytes_requested = 2_MiB;
  CHECK_FALSE(contains(describe_out_of_memory(small), "granule"));
  small.bytes_requested = 10;
  small.bytes_reserved_max = 102_MiB;
  CHECK_FALSE(contains(describe_out_of_memory(small), "granule"));
  small.bytes_reserved_max = MemoryBudget::kNoLimit;
  CHECK_FALSE(contains(describe_out_of_memory(small), "granule"));
}

TEST_CASE("an impossible request for a negative size is recognized") {
  CHECK(contains(describe_impossible_request("cuda:0", ~std::size_t{0}, 1_MiB, Capacity::limited),
                 "(18446744073709551615 B), perhaps a negative number, accepted: at most 1.00 MiB "
                 "(1048576 B), which is the limit"));
}

TEST_CASE("an impossible request is reported with the maximum") {
  const std::string text =
      describe_impossible_request("pinned", 65_MiB, 64_MiB, Capacity::of_the_machine);
  CHECK(text ==
        "pinned is out of memory: asked for 65.0 MiB (68157440 B), accepted: at most 64.0 MiB "
        "(67108864 B), which is the capacity");
}

TEST_CASE("the message for a pointer that is no live block says what it is") {
  const auto describe = [](Block::State state, std::uintptr_t offset) {
    const Block& block = block_in(state);
    return describe_foreign_pointer("cuda:0", "free", at(offset), &block);
  };
  CHECK(describe(Block::State::allocated, 24) ==
        "cannot free 0x400018: it points 24 B into the live block at 0x400000; accepted: the "
        "address of a live block of cuda:0");
  CHECK(contains(describe(Block::State::pending, 0), "was freed before, and its memory awaits"));
  CHECK(contains(describe(Block::State::free, 0), "was freed before, or never allocated"));
  CHECK(contains(describe(Block::State::unmapped, 0), "no memory is mapped there"));
  CHECK(contains(describe(Block::State::held, 0), "no memory is mapped there"));
  const std::string foreign =
      describe_foreign_pointer("pinned", "record a stream on", at(0), nullptr);
  CHECK(
      contains(foreign, "cannot record a stream on 0x400000: it is not memory of this allocator"));
  CHECK(contains(foreign, "live block of pinned"));
}

}  // namespace memory_errors_test
