// SPDX-License-Identifier: Apache-2.0
// Stitched blocks in the block heap: blocks at an address of their own, made of parts elsewhere.
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_heap.hpp"
#include "support/death.hpp"

namespace block_heap_stitch_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uintptr_t kBase = 0x10'0000;
constexpr std::uintptr_t kWindow = 0x80'0000;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;

void* at(std::uintptr_t offset) {
  return reinterpret_cast<void*>(kBase + offset);
}
void* window(std::uintptr_t offset) {
  return reinterpret_cast<void*>(kWindow + offset);
}

/// One segment of sixteen blocks of 4 KiB, all of Red.
struct RowFixture {
  RowFixture() {
    heap.release_held(heap.add_segment(kBase, 0x10000), Block::State::free, kUnowned);
    for (int index = 0; index < 16; ++index) row.push_back(heap.take(0x1000, 0x1000, kRed));
  }
  ~RowFixture() { heap.validate(); }

  /// Frees these blocks of the row and joins them.
  Block& stitch(std::initializer_list<std::size_t> indices, std::size_t bytes_requested,
                std::uintptr_t address = kWindow) {
    std::vector<Block*> parts;
    for (const std::size_t index : indices) heap.release(*row[index], kRed);
    for (const std::size_t index : indices) {
      auto* block = const_cast<Block*>(heap.find_covering(at(index * 0x1000)));
      parts.push_back(&heap.hold(*block, kBase + index * 0x1000, 0x1000));
    }
    Block& whole = heap.stitch(parts, address, bytes_requested, kRed);
    heap.validate();
    return whole;
  }

  BlockHeap heap;
  std::vector<Block*> row;
};

}  // namespace

TEST_CASE_FIXTURE(RowFixture,
                  "a stitched block is live at its own address, and its parts at none") {
  Block& whole = stitch({9, 2, 5}, 0x2f00);
  CHECK(whole.data() == window(0));
  CHECK(whole.bytes == 0x3000);
  CHECK(whole.bytes_requested() == 0x2f00);
  CHECK(whole.owner == kRed);
  CHECK(bool{whole.is_stitched});
  CHECK(whole.uses.list == 0);
  CHECK(heap.find(window(0)) == &whole);
  CHECK(heap.find(window(0x1000)) == nullptr);
  for (const std::size_t index : {9, 2, 5}) CHECK(heap.find(at(index * 0x1000)) == nullptr);
  CHECK(heap.in_use_count() == 14);
  CHECK(heap.free_bytes() == 0);
  CHECK(heap.take(0x1000, 0x1000, kRed) == nullptr);
}

TEST_CASE_FIXTURE(RowFixture,
                  "any address in a stitched block is covered by it, that of a part by the part") {
  Block& whole = stitch({9, 2}, 0x2000);
  CHECK(heap.find_covering(window(0)) == &whole);
  CHECK(heap.find_covering(window(0x1fff)) == &whole);
  CHECK(heap.find_covering(window(0x2000)) == nullptr);
  CHECK(heap.find_covering(reinterpret_cast<void*>(kWindow - 1)) == nullptr);
  CHECK(heap.covers(window(0x1fff)));
  CHECK_FALSE(heap.covers(window(0x2000)));
  const Block* part = heap.find_covering(at(0x2000));
  REQUIRE(part != nullptr);
  CHECK(part->state() == Block::State::part);
  CHECK(part->part.whole == &whole);
  CHECK(heap.covers(at(0x2fff)));
}

TEST_CASE_FIXTURE(RowFixture, "the parts are in the order in which they were joined") {
  Block& whole = stitch({9, 2, 5}, 0x3000);
  std::vector<std::uintptr_t> addresses;
  for (const Block* part = whole.next; part != nullptr; part = part->part.next)
    addresses.push_back(part->address - kBase);
  CHECK(addresses == std::vector<std::uintptr_t>{0x9000, 0x2000, 0x5000});
}

TEST_CASE_FIXTURE(RowFixture, "neighbors that are joined stay parts of their own") {
  Block& whole = stitch({3, 4, 5}, 0x3000);
  CHECK(heap.find_covering(at(0x3000)) != heap.find_covering(at(0x4000)));
  heap.release(whole, kRed);
  CHECK(heap.largest_free_bytes() == 0x3000);
}

TEST_CASE_FIXTURE(
    RowFixture,
    "a stitched block that is released becomes its parts, coalesced with their neighbors") {
  Block& whole = stitch({2, 9, 3}, 0x3000);
  heap.release(*row[1], kRed);
  heap.release(*row[10], kRed);
  const std::uint64_t serial = heap.serial();
  heap.release(whole, kRed);
  CHECK(heap.serial() == serial + 1);
  CHECK(heap.find_covering(window(0)) == nullptr);
  CHECK(heap.find(window(0)) == nullptr);
  CHECK(heap.free_count() == 2);
  CHECK(heap.free_bytes() == 0x5000);
  CHECK(heap.largest_free_bytes() == 0x3000);
  CHECK(heap.in_use_count() == 11);
  CHECK(heap.transfer(kRed, kBlue, serial) == 0);  // freed now, every part of it
  CHECK(heap.transfer(kRed, kBlue, serial + 1) == 2);
}

TEST_CASE_FIXTURE(
    RowFixture, "the parts of a released block are its new owner's, and apart from other owners'") {
  Block& whole = stitch({2, 9}, 0x2000);
  heap.release(*row[3], kRed);
  heap.release(*row[10], kUnowned);
  heap.release(whole, kUnowned);
  CHECK(heap.free_blocks(kRed).bytes() == 0x1000);
  CHECK(heap.free_blocks(kUnowned).count() == 2);
  CHECK(heap.free_blocks(kUnowned).largest_bytes() == 0x2000);
}

TEST_CASE_FIXTURE(RowFixture,
                  "a stitched block is pending as any other, and its parts stay taken") {
  Block& whole = stitch({2, 9}, 0x2000);
  heap.set_pending(whole);
  whole.uses.marks_left = 1;
  heap.validate();
  CHECK(heap.find(window(0)) == nullptr);
  CHECK(heap.find_covering(window(0x1000)) == &whole);
  CHECK(heap.take(0x1000, 0x1000, kRed) == nullptr);
  CHECK(stops_the_process([&] { heap.release(whole, kRed); }));
  whole.uses.marks_left = 0;
  heap.release(whole, kRed);
  CHECK(heap.free_bytes() == 0x2000);
}

TEST_CASE_FIXTURE(RowFixture,
                  "stitched blocks are released in any order without effect on others") {
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    RowFixture test;
    Block* wholes[] = {&test.stitch({1, 4}, 0x2000), &test.stitch({8, 2}, 0x2000, kWindow + 0x2000),
                       &test.stitch({11, 13}, 0x2000, kWindow + 0x4000)};
    std::size_t left = 3;
    for (const std::size_t index : order) {
      test.heap.release(*wholes[index], kUnowned);
      test.heap.validate();
      std::size_t seen = 0;
      test.heap.for_each([&](const Block& block) { seen += block.is_stitched ? 1 : 0; });
      CHECK(seen == --left);
      CHECK(test.heap.find(window(index * 0x2000)) == nullptr);
    }
    CHECK(test.heap.free_bytes() == 0x6000);
  }
}

TEST_CASE_FIXTURE(RowFixture, "the parts may lie in several segments") {
  heap.release_held(heap.add_segment(kBase + 0x20000, 0x1000), Block::State::free, kRed);
  heap.release(*row[6], kRed);
  Block* parts[] = {&heap.hold(*heap.free_blocks(kRed).best_fit(0x1000), kBase + 0x6000, 0x1000),
                    nullptr};
  parts[1] = &heap.hold(*heap.free_blocks(kRed).best_fit(0x1000), kBase + 0x20000, 0x1000);
  Block& whole = heap.stitch(parts, kWindow, 0x2000, kRed);
  heap.validate();
  heap.release(whole, kUnowned);
  heap.validate();
  CHECK(heap.free_count() == 2);
}

TEST_CASE_FIXTURE(RowFixture,
                  "a stitched block of adjacent parts may have the address of its first part") {
  Block& whole = stitch({3, 4}, 0x2000, kBase + 0x3000);
  CHECK(heap.find(at(0x3000)) == &whole);
  CHECK(heap.find_covering(at(0x4000)) == &whole);
  heap.release(whole, kRed);
  CHECK(heap.find(at(0x3000)) == nullptr);
  CHECK(heap.find_covering(at(0x3000))->state() == Block::State::free);
}

TEST_CASE_FIXTURE(RowFixture, "only held blocks can be joined, and a part cannot be freed alone") {
  heap.release(*row[2], kRed);
  Block* const live[] = {row[5]};
  Block* const free[] = {row[2]};
  CHECK(stops_the_process([&] { heap.stitch(live, kWindow, 0x1000, kRed); }));
  CHECK(stops_the_process([&] { heap.stitch(free, kWindow, 0x1000, kRed); }));
  Block& whole = stitch({9, 4}, 0x2000);
  Block& part = *whole.next;
  CHECK(stops_the_process([&] { heap.release(part, kRed); }));
  CHECK(stops_the_process([&] { heap.set_pending(part); }));
  CHECK(stops_the_process([&] { heap.release_held(part, Block::State::free, kRed); }));
  CHECK(stops_the_process([&] { heap.hold(part, part.address, part.bytes); }));
}

TEST_CASE_FIXTURE(RowFixture, "validate stops the process if a stitched block is inconsistent") {
  Block& whole = stitch({9, 2}, 0x2000);
  Block& other = stitch({12, 14}, 0x2000, kWindow + 0x2000);
  Block& first = *whole.next;
  Block& second = *first.part.next;
  CHECK_FALSE(stops_the_process([&] { heap.validate(); }));
  const auto caught = [&](auto&& corrupt) {
    return stops_the_process([&] {
      corrupt();
      heap.validate();
    });
  };
  CHECK(caught([&] { whole.bytes += 512; }));
  CHECK(caught([&] { whole.address = whole.address + 512; }));
  CHECK(caught([&] { whole.is_stitched = false; }));
  CHECK(caught([&] { whole.address = other.address; }));
  CHECK(caught([&] { whole.next = &second; }));
  CHECK(caught([&] { whole.set_state(Block::State::pending); }));
  CHECK(caught([&] { whole.set_state(Block::State::free); }));
  CHECK(caught([&] { whole.uses.marks_left = 1; }));
  CHECK(caught([&] { whole.set_bytes_requested(0); }));
  CHECK(caught([&] { first.set_state(Block::State::held); }));
  CHECK(caught([&] { first.set_state(Block::State::allocated); }));
  CHECK(caught([&] { first.is_stitched = true; }));
  CHECK(caught([&] { first.part.whole = &other; }));
  CHECK(caught([&] { first.part.next = nullptr; }));
  CHECK(caught([&] { second.part.next = other.next.get(); }));
  CHECK(caught([&] { second.bytes -= 512; }));
  Block& held = heap.hold(
      *[&] {
        heap.release(*row[7], kRed);
        return row[7];
      }(),
      row[7]->address, 0x1000);
  CHECK(caught([&] {  // a part of nothing
    held.part.next = nullptr;
    held.part.whole = &whole;
    held.set_state(Block::State::part);
  }));
  heap.release_held(held, Block::State::free, kRed);
}

}  // namespace block_heap_stitch_test
