// SPDX-License-Identifier: Apache-2.0
// How a device's staging memory is divided among copies.
#include "copy/staged/staging_memory.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace staging_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 1_MiB;

struct StagingTest : TappedDevice {
  explicit StagingTest(PinnedAllocatorOptions options = {}) : pinned(registry, options) {}

  Staging take(std::size_t bytes) {
    std::optional<Staging> staging = memory.try_take(bytes);
    REQUIRE(staging.has_value());
    return std::move(*staging);
  }

  PinnedAllocator pinned;
  StagingMemory memory{pinned, Device::cuda(0), kSlot, 4};
};

struct CrampedTest : StagingTest {
  CrampedTest() : StagingTest({.bytes_reserved_max = 3_MiB, .segment_bytes = 64_KiB}) {}
};

}  // namespace

TEST_CASE_FIXTURE(StagingTest, "nothing is pinned before a copy needs it") {
  CHECK(pinned.counters().allocations == 0);
  CHECK(memory.bytes_in_use() == 0);
  take(kSlot);
  CHECK(pinned.counters().allocations == 1);
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE_FIXTURE(StagingTest,
                  "slots lie side by side or apart, never over each other or the gate") {
  for (const std::size_t bytes :
       {std::size_t{1}, 64_KiB, 64_KiB + 1, 300_KiB, kSlot, 3 * kSlot, 1_GiB}) {
    CAPTURE(bytes);
    Staging staging = take(bytes);
    std::vector<std::pair<std::uintptr_t, std::size_t>> ranges;
    for (std::byte* slot : staging.slots)
      ranges.emplace_back(reinterpret_cast<std::uintptr_t>(slot), staging.slot_bytes);
    ranges.emplace_back(reinterpret_cast<std::uintptr_t>(staging.gate), 4);
    std::ranges::sort(ranges);
    for (std::size_t index = 1; index < ranges.size(); ++index)
      CHECK(ranges[index - 1].first + ranges[index - 1].second <= ranges[index].first);
    for (const auto& range : ranges) {
      CHECK(std::ranges::any_of(staging.blocks->blocks, [&](const StagingBlock& block) {
        const auto start = reinterpret_cast<std::uintptr_t>(block.get());
        const std::size_t size = pinned.find(block.get())->bytes;
        return start <= range.first && range.first + range.second <= start + size;
      }));
    }
    CHECK(*staging.gate == 0);
  }
}

TEST_CASE_FIXTURE(StagingTest,
                  "cached slots are aligned to pages, as direct reads of files require") {
  const Allocation before = pinned.allocate(512);  // the next block begins inside a page
  Staging first = take(2 * kSlot);
  Staging second = take(2 * kSlot);
  for (const Staging* const staging : {&first, &second}) {
    for (const std::byte* const slot : staging->slots)
      CHECK(reinterpret_cast<std::uintptr_t>(slot) % 4096 == 0);
  }
}

TEST_CASE_FIXTURE(StagingTest,
                  "a copy is cut into four chunks at least, and into whole slots at most") {
  CHECK(take(256_KiB).slot_bytes == 64_KiB);
  CHECK(take(1_MiB).slot_bytes == 256_KiB);
  CHECK(take(1_MiB).slots.size() == 4);
  CHECK(take(64_MiB).slot_bytes == kSlot);
}

TEST_CASE_FIXTURE(StagingTest, "a gate is reset for the next copy") {
  for (int round = 0; round < 4; ++round) {  // each block has one, and they take turns
    Staging staging = take(64_MiB);
    CHECK(*staging.gate == 0);
    *staging.gate = 77;
  }
}

TEST_CASE_FIXTURE(StagingTest, "one copy takes only a part of the slots") {
  Staging first = take(1_GiB);
  Staging second = take(1_GiB);
  CHECK(first.slots.size() == 2);
  CHECK(second.slots.size() == 2);
  CHECK_FALSE(memory.try_take(1_GiB).has_value());
  first = {};
  take(1_GiB);
  second = {};
  CHECK(pinned.counters().allocations == 4);  // kept, and used again
}

TEST_CASE_FIXTURE(StagingTest, "one copy gets half of many slots, and the last gets the rest") {
  StagingMemory many(pinned, Device::cuda(0), 64_KiB, 9);
  std::vector<Staging> copies;
  std::vector<std::size_t> slots;
  while (std::optional<Staging> staging = many.try_take(1_GiB)) {
    slots.push_back(staging->slots.size());
    copies.push_back(std::move(*staging));
  }
  CHECK(slots == std::vector<std::size_t>{4, 4, 1});
}

TEST_CASE_FIXTURE(StagingTest,
                  "a load of a file takes a third of the slots, two of a few, or one of two") {
  struct Case {
    std::size_t slots_max;
    std::size_t slots;
  };
  for (const Case& each : {Case{16, 5}, Case{4, 2}, Case{2, 1}}) {
    CAPTURE(each.slots_max);
    StagingMemory staging(pinned, Device::cuda(0), 64_KiB, each.slots_max);
    CHECK(staging.try_take(1_GiB, StagingMemory::Share::third)->slots.size() == each.slots);
  }
}

TEST_CASE_FIXTURE(StagingTest, "a copy smaller than a slot takes memory of its own size") {
  {
    const Staging staging = take(300_KiB);
    CHECK(memory.bytes_in_use() == 3 * 128_KiB);
    CHECK(staging.slots.size() == 3);
    CHECK(reinterpret_cast<std::uintptr_t>(staging.slots.front()) % 4096 == 0);
  }
  {
    const Staging staging = take(5000);
    CHECK(memory.bytes_in_use() == 5000);
    CHECK(staging.slots.size() == 1);
  }
  const Staging staging = take(kSlot);
  CHECK(memory.bytes_in_use() == kSlot);
}

TEST_CASE_FIXTURE(StagingTest, "the smaller copies are, the more of them find memory") {
  const auto copies_that_fit = [&](std::size_t bytes) {
    std::vector<Staging> all;
    for (auto staging = memory.try_take(bytes); staging && all.size() < 100;
         staging = memory.try_take(bytes)) {
      all.push_back(std::move(*staging));
    }
    return all.size();
  };
  CHECK(copies_that_fit(kSlot) == 4);
  CHECK(copies_that_fit(512_KiB) == 8 + 4);
  CHECK(copies_that_fit(300_KiB) == 10 + 4);
  CHECK(copies_that_fit(64_KiB) == 64 + 4);
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE_FIXTURE(StagingTest,
                  "small copies use slots once their own memory adds up to that of the slots") {
  std::vector<Staging> small;
  for (std::size_t count = 0; count < 4 * kSlot / 64_KiB; ++count) small.push_back(take(64_KiB));
  CHECK(take(kSlot).slot_bytes == 256_KiB);
  for (int slot = 0; slot < 4; ++slot) small.push_back(take(64_KiB));
  CHECK_FALSE(memory.try_take(64_KiB).has_value());
  small.clear();
  CHECK(memory.bytes_in_use() == 0);
  CHECK(pinned.counters().blocks_allocated.current == 4);  // slots are kept, the rest is not
}

TEST_CASE_FIXTURE(
    StagingTest,
    "a stream without slots gets two while less than four times the slots are in use") {
  std::vector<Staging> all;
  while (auto staging = memory.try_take(1_GiB)) all.push_back(std::move(*staging));
  CHECK(all.size() == 2);
  while (auto staging = memory.try_take_spare(1_GiB)) {
    CHECK(staging->slots.size() == 2);
    all.push_back(std::move(*staging));
  }
  CHECK(all.size() == 2 + 6);
  CHECK(pinned.counters().blocks_allocated.current == 4 * StagingMemory::kSpare);
  all.clear();
  CHECK(pinned.counters().blocks_allocated.current == 4);
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE_FIXTURE(
    StagingTest,
    "shared staging memory is returned by its last user, and each user has its own gate") {
  std::optional<Staging> first = take(kSlot);
  Staging second = memory.share(first->blocks, 1_GiB);
  CHECK(second.is_shared());
  CHECK_FALSE(first->is_shared());
  CHECK(second.gate != first->gate);
  CHECK(*second.gate == 0);
  CHECK(second.slots == first->slots);
  CHECK(second.slots.size() == 4);  // of one slot: the two halves of a copy overlap
  first.reset();
  CHECK(memory.bytes_in_use() > 0);
  second = {};
  CHECK(memory.bytes_in_use() == 0);
  CHECK(pinned.counters().blocks_allocated.current == 1);
}

TEST_CASE_FIXTURE(StagingTest,
                  "unbounded staging memory is limited only by pinning and is not cached") {
  std::vector<Staging> all;
  for (int count = 0; count < 5; ++count) all.push_back(memory.take_unbounded(1_GiB));
  CHECK(pinned.counters().blocks_allocated.current == 10);
  all.clear();
  CHECK(pinned.counters().blocks_allocated.current == 4);
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE_FIXTURE(CrampedTest, "a copy uses as many slots as can be pinned") {
  Staging first = take(1_GiB);
  CHECK(first.slots.size() == 2);
  CHECK_FALSE(memory.try_take(1_GiB).has_value());  // the limit: there is one to wait for
  first = {};
  CHECK(take(1_GiB).slots.size() == 2);
}

TEST_CASE_FIXTURE(CrampedTest,
                  "a copy smaller than a slot uses an idle slot if nothing can be pinned") {
  take(kSlot);  // kept
  const Allocation others = pinned.allocate(1_MiB + 512_KiB);
  const Staging staging = take(600_KiB);
  CHECK(staging.blocks->are_slots());
  CHECK(memory.bytes_in_use() == kSlot);
}

TEST_CASE_FIXTURE(CrampedTest,
                  "OutOfMemory is thrown if nothing can be pinned and nothing will be returned") {
  const Allocation others = pinned.allocate(2_MiB + 512_KiB);
  message_of<OutOfMemory>([&] { return memory.try_take(1_GiB); });
  CHECK(memory.bytes_in_use() == 0);
  message_of<OutOfMemory>([&] { return memory.take_unbounded(1_GiB); });
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE("a failure of the driver leaves no staging memory in use") {
  StagingTest test(
      {.segment_bytes = 64_KiB, .prefault_threads = 0});  // each slot is pinned by itself
  Staging first = test.take(kSlot);
  test.tap.refuse(DriverCall::mem_host_alloc, CUDA_ERROR_UNKNOWN, 2);
  message_of<DriverError>([&] { return test.memory.try_take(1_GiB); });
  first = {};
  CHECK(test.memory.bytes_in_use() == 0);
  test.take(1_GiB);
}

}  // namespace staging_memory_test
