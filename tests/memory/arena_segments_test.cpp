// SPDX-License-Identifier: Apache-2.0
// Growing and shrinking by granules of 2 MiB. Sizes are in MiB; a device of 64 MiB has an address
// range of 256 MiB.
#include "memory/source/arena_segments.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "support/tapped_device.hpp"

namespace arena_segments_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2_MiB;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;

sim::Config device_of_64_mib() {
  sim::Config config;
  config.memory = {64_MiB};
  return config;
}

struct SegmentsFixture : TappedDevice {
  SegmentsFixture() : TappedDevice(device_of_64_mib()) {}
  ~SegmentsFixture() { segments.give_back_all(heap); }

  [[nodiscard]] std::uintptr_t base() const { return heap.segments().begin()->first; }
  [[nodiscard]] std::size_t offset(const Block& block) const { return block.address - base(); }

  SegmentSource::Growth plan(std::size_t bytes, OwnerId owner) {
    auto growth = segments.plan_growth(heap, bytes, owner, SegmentSource::Stitching::yes);
    REQUIRE(growth.has_value());
    planned_bytes = bytes;
    heap.validate();
    return *growth;
  }
  /// The stitched block, or null where what was obtained is free.
  Block* obtain_and_finish(SegmentSource::Growth growth, OwnerId owner) {
    REQUIRE(segments.obtain(growth));
    Block* block = segments.finish_growth(heap, growth, planned_bytes, owner);
    heap.validate();
    return block;
  }
  /// Bytes that were obtained for a block of `bytes`.
  std::size_t grow(std::size_t bytes, OwnerId owner) {
    const SegmentSource::Growth growth = plan(bytes, owner);
    obtain_and_finish(growth, owner);
    return growth.bytes;
  }
  Block* grow_and_take(std::size_t bytes, OwnerId owner) {
    Block* block = obtain_and_finish(plan(bytes, owner), owner);
    if (block == nullptr) block = heap.take(bytes, bytes, owner);
    REQUIRE(block != nullptr);
    return block;
  }
  std::size_t give_back(std::size_t bytes) {
    std::size_t given_back = 0;
    for (SegmentSource::Range& range : segments.plan_return(heap, bytes)) {
      heap.validate();
      given_back += range.held->bytes;
      segments.give_back(range);
      segments.finish_return(heap, std::move(range));
      heap.validate();
    }
    return given_back;
  }

  BlockHeap heap;
  ArenaSegments segments{context, heap, kGranule, 64_MiB};
  std::size_t planned_bytes = 0;
};

}  // namespace

TEST_CASE_FIXTURE(SegmentsFixture,
                  "initially the arena reserves as many addresses as the device has memory") {
  CHECK(segments.capacity_bytes() == 64_MiB);
  REQUIRE(heap.unmapped().size() == 1);
  CHECK(heap.unmapped().begin()->second->bytes == 64_MiB);
  CHECK(heap.unmapped().begin()->second->is_whole_segment());
  CHECK(heap.free_bytes() == 0);
  CHECK(simulator.device_bytes_used(0) == 0);
  CHECK(segments.contains(base()));
  CHECK_FALSE(segments.contains(base() - 1));
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "the first growth maps whole granules at the low end, for the owner") {
  for (const std::size_t bytes : {std::size_t{512}, kGranule, kGranule + 512, 7_MiB}) {
    CAPTURE(bytes);
    const SegmentSource::Growth growth = plan(bytes, kRed);
    CHECK(growth.bytes == align_up(bytes, kGranule));
    CHECK(growth.fresh.front()->bytes == growth.bytes);
    CHECK(offset(*growth.fresh.front()) == 0);
    CHECK(simulator.device_bytes_used(0) == 0);  // not before obtain()
    obtain_and_finish(growth, kRed);
    CHECK(simulator.device_bytes_used(0) == growth.bytes);
    CHECK(heap.free_blocks(kRed).bytes() == growth.bytes);
    heap.transfer(kRed, kUnowned, heap.serial());
    CHECK(give_back(growth.bytes) == growth.bytes);
  }
}

TEST_CASE_FIXTURE(SegmentsFixture, "growth above free memory of the owner is reduced by it") {
  grow_and_take(5_MiB, kRed);  // 6 MiB mapped, 1 MiB free at the end
  CHECK(grow(3_MiB, kRed) == 2_MiB);
  Block* block = heap.take(3_MiB, 3_MiB, kRed);
  REQUIRE(block != nullptr);
  CHECK(offset(*block) == 5_MiB);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "growth above unowned memory is reduced by it, and joins it after mapping") {
  Block* first = grow_and_take(6_MiB, kRed);
  heap.release(*first, kUnowned);
  const SegmentSource::Growth growth = plan(8_MiB, kBlue);
  CHECK(growth.bytes == 2_MiB);
  CHECK(heap.free_blocks(kUnowned).bytes() == 6_MiB);
  obtain_and_finish(growth, kBlue);
  CHECK(heap.free_blocks(kUnowned).empty());
  Block* block = heap.take(8_MiB, 8_MiB, kBlue);
  REQUIRE(block != nullptr);
  CHECK(offset(*block) == 0);
}

TEST_CASE_FIXTURE(SegmentsFixture, "free memory of another owner does not reduce growth") {
  Block* first = grow_and_take(6_MiB, kRed);
  heap.release(*first, kRed);
  CHECK(grow(8_MiB, kBlue) == 8_MiB);
  CHECK(heap.free_blocks(kRed).bytes() == 6_MiB);
  CHECK(heap.free_blocks(kBlue).bytes() == 8_MiB);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "growth below free memory is reduced by it, and fills the gap from its top") {
  Block* low = grow_and_take(10_MiB, kRed);
  Block* high = grow_and_take(4_MiB, kRed);
  Block* end = grow_and_take(2_MiB, kBlue);
  heap.release(*low, kUnowned);
  REQUIRE(give_back(8_MiB) == 8_MiB);  // a gap from 2 to 10 MiB
  Block* bottom = heap.take(2_MiB, 2_MiB, kBlue);
  REQUIRE(bottom != nullptr);
  heap.release(*high, kRed);  // free from 10 to 14 MiB
  const SegmentSource::Growth growth = plan(7_MiB, kRed);
  CHECK(growth.bytes == 4_MiB);
  CHECK(offset(*growth.fresh.front()) == 6_MiB);
  obtain_and_finish(growth, kRed);
  Block* block = heap.take(7_MiB, 7_MiB, kRed);
  REQUIRE(block != nullptr);
  CHECK(offset(*block) == 6_MiB);
  CHECK(end->state() == Block::State::allocated);
}

TEST_CASE_FIXTURE(SegmentsFixture, "a gap that is filled joins both of its neighbors") {
  Block* low = grow_and_take(4_MiB, kRed);
  Block* gap = grow_and_take(2_MiB, kRed);
  Block* high = grow_and_take(4_MiB, kRed);
  grow_and_take(2_MiB, kBlue);
  heap.release(*gap, kUnowned);
  REQUIRE(give_back(2_MiB) == 2_MiB);
  SUBCASE("neighbors of one owner") {
    heap.release(*low, kRed);
    heap.release(*high, kRed);
  }
  SUBCASE("unowned neighbors") {
    heap.release(*low, kUnowned);
    heap.release(*high, kUnowned);
  }
  SUBCASE("one neighbor of the owner and one unowned") {
    heap.release(*low, kUnowned);
    heap.release(*high, kRed);
  }
  CHECK(grow(10_MiB, kRed) == 2_MiB);
  Block* block = heap.take(10_MiB, 10_MiB, kRed);
  REQUIRE(block != nullptr);
  CHECK(offset(*block) == 0);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "the gap that needs fewer granules is filled, and at a tie the lower one") {
  std::vector<Block*> row;
  for (int index = 0; index < 12; ++index) row.push_back(grow_and_take(2_MiB, kRed));
  for (const std::size_t index : {1, 2, 6, 7}) heap.release(*row[index], kUnowned);
  REQUIRE(give_back(8_MiB) == 8_MiB);  // gaps of 4 MiB at 2 and at 12
  SUBCASE("a tie") {
    const SegmentSource::Growth growth = plan(4_MiB, kRed);
    CHECK(offset(*growth.fresh.front()) == 2_MiB);
    segments.cancel_growth(heap, growth);
  }
  SUBCASE("a neighbor makes the upper one cheaper") {
    heap.release(*row[8], kRed);
    const SegmentSource::Growth growth = plan(4_MiB, kRed);
    CHECK(growth.bytes == 2_MiB);
    CHECK(offset(*growth.fresh.front()) == 14_MiB);
    segments.cancel_growth(heap, growth);
  }
  heap.validate();
}

TEST_CASE_FIXTURE(SegmentsFixture, "a gap too small for the request is skipped") {
  std::vector<Block*> row;
  for (int index = 0; index < 4; ++index) row.push_back(grow_and_take(2_MiB, kRed));
  heap.release(*row[1], kUnowned);
  REQUIRE(give_back(2_MiB) == 2_MiB);
  const SegmentSource::Growth growth = plan(4_MiB, kRed);
  CHECK(offset(*growth.fresh.front()) == 8_MiB);
  segments.cancel_growth(heap, growth);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "a request for more than the address space is refused, and holds nothing") {
  const std::size_t all = heap.unmapped().begin()->second->bytes;
  CHECK_FALSE(
      segments.plan_growth(heap, all + 512, kRed, SegmentSource::Stitching::yes).has_value());
  heap.validate();
  CHECK(heap.unmapped().begin()->second->bytes == all);
  const SegmentSource::Growth growth = plan(all, kRed);
  CHECK(growth.bytes == all);
  CHECK(heap.unmapped().empty());
  segments.cancel_growth(heap, growth);
  CHECK(heap.unmapped().begin()->second->bytes == all);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "a growth that is cancelled or refused by the driver changes nothing") {
  grow_and_take(5_MiB, kRed);
  const std::size_t unmapped = heap.unmapped().begin()->second->bytes;
  for (const bool refused : {false, true}) {
    SegmentSource::Growth growth = plan(20_MiB, kBlue);
    if (refused) {
      tap.refuse(DriverCall::mem_create, CUDA_ERROR_OUT_OF_MEMORY, 4);
      CHECK_FALSE(segments.obtain(growth));
    }
    segments.cancel_growth(heap, growth);
    heap.validate();
    REQUIRE(heap.unmapped().size() == 1);
    CHECK(heap.unmapped().begin()->second->bytes == unmapped);
    CHECK(simulator.device_bytes_used(0) == 6_MiB);
    CHECK(heap.free_bytes() == 1_MiB);
  }
}

// Other threads take and free while the driver maps: what the plan counted on may have changed.
TEST_CASE_FIXTURE(SegmentsFixture,
                  "if a neighbor is taken during the growth, a second growth serves the request") {
  Block* low = grow_and_take(4_MiB, kRed);
  heap.release(*low, kRed);
  const SegmentSource::Growth growth = plan(6_MiB, kRed);
  REQUIRE(growth.bytes == 2_MiB);
  Block* theirs = heap.take(4_MiB, 4_MiB, kRed);
  REQUIRE(theirs == low);
  obtain_and_finish(growth, kRed);
  CHECK(heap.take(6_MiB, 6_MiB, kRed) == nullptr);
  CHECK(grow(6_MiB, kRed) == 4_MiB);
  CHECK(offset(*heap.take(6_MiB, 6_MiB, kRed)) == 4_MiB);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "a neighbor freed during the growth is treated by its new owner") {
  Block* low = grow_and_take(4_MiB, kRed);
  const SegmentSource::Growth growth = plan(6_MiB, kRed);
  CHECK(growth.bytes == 6_MiB);
  SUBCASE("freed on the same stream: merged") {
    heap.release(*low, kRed);
    obtain_and_finish(growth, kRed);
    CHECK(heap.free_blocks(kRed).largest_bytes() == 10_MiB);
  }
  SUBCASE("freed and unowned: not merged, for it is not needed") {
    heap.release(*low, kUnowned);
    obtain_and_finish(growth, kRed);
    CHECK(heap.free_blocks(kRed).largest_bytes() == 6_MiB);
    CHECK(heap.free_blocks(kUnowned).bytes() == 4_MiB);
  }
  SUBCASE("freed on another stream: not merged") {
    heap.release(*low, kBlue);
    obtain_and_finish(growth, kRed);
    CHECK(heap.free_blocks(kRed).largest_bytes() == 6_MiB);
    CHECK(heap.free_blocks(kBlue).bytes() == 4_MiB);
  }
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "a sufficient hole freed after the search needs neither memory nor a mapping") {
  Block* low = grow_and_take(8_MiB, kRed);
  heap.release(*low, kUnowned);
  const std::size_t mappings = simulator.live().mappings;
  Block* block = obtain_and_finish(plan(8_MiB, kRed), kRed);
  REQUIRE(block != nullptr);
  CHECK(offset(*block) == 0);
  CHECK(simulator.live().mappings == mappings);
  CHECK(simulator.device_bytes_used(0) == 8_MiB);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "only unowned memory is returned, in whole granules, from the top") {
  Block* block = grow_and_take(11_MiB, kRed);  // 12 MiB mapped
  CHECK(give_back(std::numeric_limits<std::size_t>::max()) == 0);
  heap.release(*block, kRed);
  CHECK(give_back(std::numeric_limits<std::size_t>::max()) == 0);
  heap.transfer(kRed, kUnowned, heap.serial());
  CHECK(give_back(1) == 2_MiB);
  CHECK(heap.free_blocks(kUnowned).bytes() == 10_MiB);
  CHECK(heap.unmapped().begin()->first == base() + 10_MiB);
  CHECK(give_back(4_MiB) == 4_MiB);
  CHECK(heap.unmapped().begin()->first == base() + 6_MiB);
  CHECK(give_back(4_MiB + 1) == 6_MiB);
  CHECK(simulator.device_bytes_used(0) == 0);
  CHECK(heap.unmapped().size() == 1);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "granules that a live block touches stay, however little of them it has") {
  Block* low = grow_and_take(3_MiB, kRed);
  Block* high = grow_and_take(6_MiB, kRed);  // from 4 to 10 MiB, which leaves no granule in pieces
  CHECK(offset(*high) == 4_MiB);
  heap.release(*high, kUnowned);
  heap.transfer(kRed, kUnowned, heap.serial());
  CHECK(give_back(std::numeric_limits<std::size_t>::max()) == 6_MiB);
  CHECK(heap.free_blocks(kUnowned).bytes() == 1_MiB);
  CHECK(simulator.device_bytes_used(0) == 4_MiB);
  heap.release(*low, kUnowned);
  CHECK(give_back(std::numeric_limits<std::size_t>::max()) == 4_MiB);
}

TEST_CASE_FIXTURE(SegmentsFixture, "the largest free block is given back first") {
  std::vector<Block*> row;
  for (const std::size_t bytes : {4_MiB, 2_MiB, 8_MiB, 2_MiB, 6_MiB, 2_MiB})
    row.push_back(grow_and_take(bytes, kRed));
  for (const std::size_t index : {0, 2, 4}) heap.release(*row[index], kUnowned);
  CHECK(give_back(8_MiB) == 8_MiB);
  CHECK(heap.free_blocks(kUnowned).largest_bytes() == 6_MiB);
  CHECK(give_back(7_MiB) == 8_MiB);  // 6 MiB of one, and 2 MiB of the next, from its top
  CHECK(heap.free_blocks(kUnowned).bytes() == 2_MiB);
  CHECK((heap.free_blocks(kUnowned).best_fit(1))->address == base());
}

TEST_CASE_FIXTURE(SegmentsFixture, "the destructor returns all memory, live blocks included") {
  grow_and_take(5_MiB, kRed);
  Block* freed = grow_and_take(5_MiB, kBlue);
  heap.release(*freed, kBlue);
  segments.give_back_all(heap);
  CHECK(simulator.device_bytes_used(0) == 0);
  CHECK(simulator.live().mappings == 0);
}

TEST_CASE_FIXTURE(SegmentsFixture,
                  "windows with live blocks are never unmapped, however many there are") {
  const auto has_memory = [&](const Block& block) {
    return !simulator.peek(block.address, 1).empty() && !simulator.peek(block.end() - 1, 1).empty();
  };
  std::mt19937 random(1);
  const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
  std::vector<Block*> live;
  std::vector<Block*> kept;
  std::size_t times_over_bound = 0;
  for (int operation = 0; operation < 3000; ++operation) {
    CAPTURE(operation);
    const std::size_t bytes = 512 * (1 + below(20'000));
    Block* block = heap.take(bytes, bytes, kRed);
    if (block == nullptr) {
      const std::vector<Freed> idle{{kRed, heap.serial()}};
      if (segments.needs_idle_memory()) {
        ++times_over_bound;
        segments.set_idle_memory(heap, idle);
      }
      auto growth = segments.plan_growth(heap, bytes, kRed, SegmentSource::Stitching::yes);
      if (growth) {
        REQUIRE(segments.obtain(*growth));
        block = segments.finish_growth(heap, *growth, bytes, kRed);
        if (block == nullptr) block = heap.take(bytes, bytes, kRed);
      }
    }
    if (block != nullptr) {
      // Some live long, so that their windows are those that were wanted longest ago.
      const bool stays = block->is_stitched && kept.size() < 6 && bytes < 5_MiB;
      (stays ? kept : live).push_back(block);
    }
    for (std::size_t count = block == nullptr ? 2 : below(2); count > 0 && !live.empty(); --count) {
      std::swap(live[below(live.size())], live.back());
      heap.release(*live.back(), kRed);
      live.pop_back();
    }
    REQUIRE(std::ranges::all_of(kept, [&](const Block* each) { return has_memory(*each); }));
    REQUIRE(std::ranges::all_of(live, [&](const Block* each) { return has_memory(*each); }));
  }
  heap.validate();
  CHECK(times_over_bound > 100);
}

// The fewest granules, found by trying every range of every gap.
TEST_CASE_FIXTURE(SegmentsFixture, "a growth obtains the fewest granules that make the block") {
  const auto fewest = [&](std::size_t bytes, OwnerId owner) -> std::optional<std::size_t> {
    const auto joins = [&](const Block* block) {
      return block != nullptr && block->state() == Block::State::free &&
             (block->owner == owner || block->owner == kUnowned);
    };
    std::optional<std::size_t> best;
    for (const auto& [address, gap] : heap.unmapped()) {
      const std::size_t granules = std::min<std::size_t>(gap->bytes / kGranule, 40);
      for (std::size_t first = 0; first < granules; ++first) {
        for (std::size_t count = 1; first + count <= granules; ++count) {
          std::size_t block = count * kGranule;
          if (first == 0 && joins(gap->prev)) block += gap->prev->bytes;
          if ((first + count) * kGranule == gap->bytes && joins(gap->next))
            block += gap->next->bytes;
          if (block >= bytes && (!best || count * kGranule < *best)) best = count * kGranule;
        }
      }
    }
    return best;
  };

  // In bytes: not mapped, or free for the owner from end to end.
  const auto whole_granules = [&](OwnerId owner) {
    std::size_t bytes = 0;
    heap.for_each([&](const Block& block) {
      const bool is_free =
          block.state() == Block::State::free && (block.owner == owner || block.owner == kUnowned);
      if (!is_free && block.state() != Block::State::unmapped) return;
      const std::uintptr_t begin = align_up(block.address, kGranule);
      const std::uintptr_t end = align_down(block.end(), kGranule);
      if (begin < end) bytes += end - begin;
    });
    return bytes;
  };

  for (unsigned seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
    std::vector<Block*> live;
    std::size_t mapped = 0;
    for (int operation = 0; operation < 400; ++operation) {
      CAPTURE(operation);
      const auto owner = static_cast<OwnerId>(kRed + below(2));
      if (below(2) == 0) {
        const std::size_t bytes = 512 * (1 + below(below(3) == 0 ? 30'000 : 5'000));
        if (Block* block = heap.take(bytes, bytes, owner)) {
          live.push_back(block);
        } else {
          const auto expected = fewest(bytes, owner);
          auto growth = segments.plan_growth(heap, bytes, owner, SegmentSource::Stitching::yes);
          if (!growth) {
            REQUIRE(!expected);
            REQUIRE(align_up(bytes, kGranule) > whole_granules(owner));
            continue;
          }
          REQUIRE((!expected || growth->bytes <= *expected));
          REQUIRE(segments.obtain(*growth));
          Block* stitched = segments.finish_growth(heap, *growth, bytes, owner);
          mapped += growth->bytes;
          live.push_back(stitched != nullptr ? stitched : heap.take(bytes, bytes, owner));
          REQUIRE(live.back() != nullptr);
        }
      } else if (below(8) == 0) {
        const std::size_t wanted = 1 + below(16_MiB);
        const std::size_t given_back = give_back(wanted);
        REQUIRE(given_back < wanted + kGranule);
        mapped -= given_back;
      } else if (!live.empty()) {
        std::swap(live[below(live.size())], live.back());
        heap.release(*live.back(), below(2) == 0 ? kUnowned : live.back()->owner);
        live.pop_back();
      }
      heap.validate();
      REQUIRE(simulator.device_bytes_used(0) == mapped);
    }
    for (Block* block : live) heap.release(*block, kUnowned);
    heap.transfer(kRed, kUnowned, heap.serial());
    heap.transfer(kBlue, kUnowned, heap.serial());
    REQUIRE(give_back(std::numeric_limits<std::size_t>::max()) == mapped);
    REQUIRE(simulator.device_bytes_used(0) == 0);
  }
}

}  // namespace arena_segments_test
