// SPDX-License-Identifier: Apache-2.0
// The rules of the block heap, one by one. block_heap_model_test.cpp mixes them at random.
#include "heap/block_heap.hpp"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support/death.hpp"

namespace block_heap_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uintptr_t kBase = 0x10'0000;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;

void* at(std::uintptr_t offset) {
  return reinterpret_cast<void*>(kBase + offset);
}

/// One segment of 64 KiB, free and of no owner.
struct OneSegment {
  OneSegment() {
    heap.release_held(heap.add_segment(kBase, 0x10000), Block::State::free, kUnowned);
  }
  /// Takes `count` blocks of 4 KiB that tile the segment from its start.
  std::vector<Block*> take_row(std::size_t count, OwnerId owner) {
    std::vector<Block*> row;
    for (std::size_t index = 0; index < count; ++index)
      row.push_back(heap.take(0x1000, 0x1000, owner));
    return row;
  }
  ~OneSegment() { heap.validate(); }
  BlockHeap heap;
};

}  // namespace

TEST_CASE("an empty heap has nothing to give, find or cover") {
  BlockHeap heap;
  CHECK(heap.take(512, 512, kRed) == nullptr);
  CHECK(heap.find(at(0)) == nullptr);
  CHECK(heap.find_covering(at(0)) == nullptr);
  CHECK_FALSE(heap.covers(at(0)));
  CHECK(heap.largest_free_bytes() == 0);
  CHECK(heap.transfer(kRed, kBlue, 100) == 0);
  heap.validate();
}

TEST_CASE_FIXTURE(OneSegment, "a block is cut from the low end of the smallest hole that fits") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.release(*row[3], kRed);
  heap.release(*row[4], kRed);  // a hole of 8 KiB at 0x3000
  heap.release(*row[9], kRed);  // and one of 4 KiB at 0x9000
  Block* exact = heap.take(0x1000, 0xfff, kRed);
  CHECK(exact->data() == at(0x9000));
  Block* low = heap.take(0x200, 0x200, kRed);
  CHECK(low->data() == at(0x3000));
  CHECK(low->bytes == 0x200);
  CHECK(low->bytes_requested() == 0x200);
  CHECK(heap.free_count() == 1);
  CHECK(heap.free_bytes() == 0x1e00);
  CHECK(heap.take(0x2000, 0x2000, kRed) == nullptr);
}

TEST_CASE("a block is cut from the high end of a hole where that breaks fewer granules") {
  BlockHeap heap;
  heap.set_granule_bytes(0x4000);
  heap.release_held(heap.add_segment(kBase, 0x10000), Block::State::free, kUnowned);
  BlockHeap::Fit fit = heap.find_fit(0x3000, kRed);
  CHECK(fit.address == kBase);
  CHECK(fit.granules_broken == 1);
  fit.address = kBase + 0xd000;
  heap.take(fit, 0x3000, 0x3000, kRed);  // leaves three whole granules, and 4 KiB behind them
  CHECK(heap.whole_granules(kUnowned) == 3);
  fit = heap.find_fit(0x1000, kRed);
  CHECK(fit.address == kBase + 0xc000);
  CHECK(fit.granules_broken == 0);
  fit = heap.find_fit(0x2000, kRed);
  CHECK(fit.address == kBase);
  CHECK(fit.granules_broken == 1);
  CHECK(heap.find_fit(0xd000, kRed).granules_broken == 3);
  CHECK(heap.take(0x1000, 0x1000, kRed)->data() == at(0xc000));
  CHECK(heap.whole_granules(kUnowned) == 3);
  heap.validate();
}

TEST_CASE_FIXTURE(
    OneSegment, "the smallest sufficient hole is transferred, if it was freed before the serial") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.release(*row[2], kRed);
  const std::uint64_t serial = heap.serial();
  heap.release(*row[3], kRed);
  CHECK_FALSE(heap.transfer_fit(kRed, kBlue, serial, 0x1000));
  CHECK(heap.take(0x1000, 0x1000, kBlue) == nullptr);
  CHECK_FALSE(heap.transfer_fit(kRed, kBlue, heap.serial(), 0x3000));
  CHECK(heap.transfer_fit(kRed, kBlue, heap.serial(), 0x1000));
  CHECK(heap.free_blocks(kRed).bytes() == 0x1000);
  CHECK(heap.take(0x1000, 0x1000, kBlue)->data() == at(0x2000));
}

TEST_CASE("holes_of_all() finds free granules of any owner") {
  BlockHeap heap;
  heap.set_granule_bytes(0x4000);
  heap.release_held(heap.add_segment(kBase, 0x10000), Block::State::free, kUnowned);
  std::vector<Block*> row;
  for (const OwnerId owner : {kRed, kBlue, kRed, kBlue})
    row.push_back(heap.take(0x4000, 0x4000, owner));
  for (const std::size_t index : {1U, 2U}) heap.release(*row[index], row[index]->owner);
  heap.release(*row[3], kUnowned);
  const GranuleIndex& holes = heap.holes_of_all();
  CHECK(holes.range_with(0).source == nullptr);
  for (const std::uint32_t granule : {1U, 2U, 3U})
    CHECK(holes.range_with(granule).source == row[granule]);
}

TEST_CASE("transfer_whole transfers whole granules that were freed before the serial") {
  BlockHeap heap;
  heap.set_granule_bytes(0x4000);
  heap.release_held(heap.add_segment(kBase, 0x10000), Block::State::free, kUnowned);
  Block* const early = heap.take(0x9000, 0x9000, kRed);  // two granules, and a quarter of one
  Block* const late = heap.take(0x7000, 0x7000, kRed);
  heap.release(*early, kRed);
  const std::uint64_t serial = heap.serial();
  CHECK(heap.transfer_whole(kRed, kUnowned, serial, 0x1001) == 0x4000);
  CHECK(heap.free_blocks(kUnowned).bytes() == 0x4000);
  CHECK(heap.transfer_whole(kRed, kUnowned, serial, 0x4001) == 0x4000);  // as far as there are any
  CHECK(heap.transfer_whole(kRed, kUnowned, serial, 1) == 0);
  CHECK(heap.free_blocks(kRed).bytes() == 0x1000);
  heap.release(*late, kRed);  // the piece before it is now a part of what was freed late
  CHECK(heap.transfer_whole(kRed, kUnowned, serial, 1) == 0);
  CHECK(heap.transfer_whole(kRed, kUnowned, heap.serial(), 0x10000) == 0x8000);
  heap.validate();
}

TEST_CASE("transfer_whole transfers whole segments, the largest first") {
  BlockHeap heap;
  const auto add = [&](std::uintptr_t offset, std::size_t bytes) {
    heap.release_held(heap.add_segment(kBase + offset, bytes), Block::State::free, kRed);
  };
  add(0, 0x1000);
  add(0x10000, 0x4000);
  add(0x20000, 0x2000);
  Block* const user = heap.take(0x200, 0x200, kRed);  // of the smallest, which stays
  CHECK(heap.transfer_whole(kRed, kUnowned, heap.serial(), 0x3000) == 0x4000);
  CHECK(heap.free_blocks(kUnowned).largest_bytes() == 0x4000);
  CHECK(heap.transfer_whole(kRed, kBlue, heap.serial(), 0x10000) == 0x2000);
  CHECK(heap.free_blocks(kBlue).bytes() == 0x2000);
  CHECK(heap.free_blocks(kRed).bytes() == 0xe00);
  heap.release(*user, kRed);
  CHECK(heap.transfer_whole(kRed, kBlue, heap.serial() - 1, 1) == 0);
  CHECK(heap.transfer_whole(kRed, kBlue, heap.serial(), 1) == 0x1000);
  heap.validate();
}

TEST_CASE_FIXTURE(OneSegment,
                  "a block serves its owner and, unowned, anyone; never another owner") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.release(*row[5], kRed);
  CHECK(heap.take(0x1000, 0x1000, kBlue) == nullptr);
  CHECK(heap.take(0x1000, 0x1000, kUnowned) == nullptr);
  Block* again = heap.take(0x1000, 0x1000, kRed);
  CHECK(again->data() == at(0x5000));
  heap.release(*again, kUnowned);
  Block* theirs = heap.take(0x1000, 0x1000, kBlue);
  REQUIRE(theirs != nullptr);
  CHECK(theirs->owner == kBlue);
  heap.release(*theirs, kUnowned);
  CHECK(heap.take(0x1000, 0x1000, kUnowned)->owner == kUnowned);
}

TEST_CASE_FIXTURE(OneSegment, "own memory is preferred to unowned memory, even of a better size") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.release(*row[2], kUnowned);
  heap.release(*row[8], kRed);
  CHECK(heap.take(0x1000, 0x1000, kRed)->data() == at(0x8000));
  heap.release(*row[10], kRed);
  heap.release(*row[11], kRed);
  CHECK(heap.take(0x1000, 0x1000, kRed)->data() == at(0xa000));
  CHECK(heap.take(0x1000, 0x1000, kRed)->data() == at(0xb000));
  CHECK(heap.take(0x1000, 0x1000, kRed)->data() == at(0x2000));
}

TEST_CASE_FIXTURE(OneSegment,
                  "free neighbors of one owner become one block, in any order of freeing") {
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    const std::vector<Block*> row = take_row(16, kRed);
    for (const std::size_t index : order) {
      heap.release(*row[4 + index], kRed);
      heap.validate();
    }
    CHECK(heap.free_count() == 1);
    Block* joined = heap.take(0x3000, 0x3000, kRed);
    REQUIRE(joined != nullptr);
    CHECK(joined->data() == at(0x4000));
    heap.release(*joined, kUnowned);
    for (std::size_t index = 0; index < 16; ++index) {
      if (index < 4 || index > 6) heap.release(*row[index], kUnowned);
    }
    CHECK(heap.largest_free_bytes() == 0x10000);
  }
}

TEST_CASE_FIXTURE(OneSegment,
                  "free neighbors of different owners stay apart until one is transferred") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.release(*row[4], kRed);
  heap.release(*row[5], kBlue);
  heap.release(*row[6], kRed);
  heap.release(*row[7], kUnowned);
  CHECK(heap.free_count() == 4);
  CHECK(heap.largest_free_bytes() == 0x1000);
  CHECK(heap.owners_with_free_blocks() == std::vector<OwnerId>{kRed, kBlue});
  CHECK(heap.transfer(kBlue, kRed, heap.serial()) == 1);
  heap.validate();
  CHECK(heap.free_count() == 2);
  CHECK(heap.largest_free_bytes() == 0x3000);
  CHECK(heap.owners_with_free_blocks() == std::vector<OwnerId>{kRed});
  CHECK(heap.transfer(kRed, kUnowned, heap.serial()) == 1);
  CHECK(heap.free_count() == 1);
  CHECK(heap.largest_free_bytes() == 0x4000);
  CHECK(heap.owners_with_free_blocks().empty());
}

TEST_CASE_FIXTURE(OneSegment, "a new owner starts without a last free") {
  heap.release(*heap.take(0x1000, 0x1000, kRed), kRed);
  CHECK(heap.freed_last(kRed) == heap.serial());
  CHECK(heap.transfer(kRed, kUnowned, heap.serial()) == 1);
  CHECK(heap.freed_last(kRed) == 0);
  heap.reserve_owner(kBlue);
  CHECK(heap.freed_last(kBlue) == 0);
}

TEST_CASE_FIXTURE(OneSegment,
                  "a transfer takes the blocks freed up to its serial, that one included") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.release(*row[1], kRed);
  heap.release(*row[4], kRed);
  const std::uint64_t serial = heap.serial();
  heap.release(*row[7], kRed);
  heap.release(*row[10], kRed);
  CHECK(heap.transfer(kRed, kBlue, serial - 2) == 0);
  CHECK(heap.transfer(kRed, kBlue, serial) == 2);
  heap.validate();
  CHECK(heap.take(0x1000, 0x1000, kBlue)->data() == at(0x1000));
  CHECK(heap.take(0x1000, 0x1000, kBlue)->data() == at(0x4000));
  CHECK(heap.take(0x1000, 0x1000, kBlue) == nullptr);
  CHECK(heap.transfer(kRed, kBlue, serial + 1) == 1);
  CHECK(heap.take(0x1000, 0x1000, kBlue)->data() == at(0x7000));
}

TEST_CASE_FIXTURE(OneSegment, "a block merged with a later free has the later serial as a whole") {
  for (const bool earlier_first_in_memory : {true, false}) {
    const std::vector<Block*> row = take_row(16, kRed);
    heap.release(*row[earlier_first_in_memory ? 3 : 4], kRed);
    const std::uint64_t serial = heap.serial();
    heap.release(*row[earlier_first_in_memory ? 4 : 3], kRed);
    CHECK(heap.transfer(kRed, kBlue, serial) == 0);
    Block* whole = heap.take(0x2000, 0x2000, kRed);
    REQUIRE(whole != nullptr);
    heap.release(*whole, kUnowned);
    for (std::size_t index = 0; index < 16; ++index) {
      if (index != 3 && index != 4) heap.release(*row[index], kUnowned);
    }
  }
}

TEST_CASE_FIXTURE(OneSegment, "the rest of a split free block keeps its serial") {
  Block* large = heap.take(0x8000, 0x8000, kRed);
  Block* rest = heap.take(0x8000, 0x8000, kRed);
  heap.release(*large, kRed);
  const std::uint64_t serial = heap.serial();
  Block* piece = heap.take(0x1000, 0x1000, kRed);
  CHECK(piece->data() == at(0));
  CHECK(heap.transfer(kRed, kBlue, serial - 1) == 0);
  CHECK(heap.transfer(kRed, kBlue, serial) == 1);
  CHECK(heap.take(0x7000, 0x7000, kBlue)->data() == at(0x1000));
  CHECK(rest->data() == at(0x8000));
}

TEST_CASE_FIXTURE(OneSegment, "the rest beside a held part keeps the block's serial") {
  Block* large = heap.take(0x8000, 0x8000, kRed);
  heap.take(0x8000, 0x8000, kRed);
  heap.release(*large, kRed);
  const std::uint64_t serial = heap.serial();
  Block& held = heap.hold(*large, large->address + 0x2000, 0x1000);
  CHECK(heap.transfer(kRed, kBlue, serial - 1) == 0);
  CHECK(heap.transfer(kRed, kBlue, serial) == 2);
  heap.release_held(held, Block::State::free, kBlue);
  heap.validate();
}

TEST_CASE_FIXTURE(OneSegment,
                  "a pending block is not live, not free, and free again once released") {
  Block* block = heap.take(0x1000, 0x1000, kRed);
  heap.set_pending(*block);
  block->uses.marks_left = 1;
  heap.validate();
  CHECK(heap.find(at(0)) == nullptr);
  CHECK(heap.covers(at(0)));
  CHECK(heap.find_covering(at(0xfff)) == block);
  CHECK(heap.in_use_count() == 0);
  CHECK(heap.free_bytes() == 0xf000);
  CHECK(block->bytes_requested() == 0);
  block->uses.marks_left = 0;
  heap.release(*block, kRed);
  CHECK(heap.free_bytes() == 0x10000);
  Block* again = heap.take(0x1000, 0x1000, kRed);
  CHECK(again->data() == at(0));
  CHECK(again->uses.list == 0);
}

TEST_CASE_FIXTURE(
    OneSegment,
    "find takes the start of a live block only, find_covering any address in a segment") {
  Block* first = heap.take(0x1000, 0x1000, kRed);
  Block* second = heap.take(0x1000, 0x1000, kRed);
  CHECK(heap.find(at(0)) == first);
  CHECK(heap.find(at(0x1000)) == second);
  CHECK(heap.find(at(1)) == nullptr);
  CHECK(heap.find(at(0x2000)) == nullptr);
  CHECK(heap.find_covering(at(0xfff)) == first);
  CHECK(heap.find_covering(at(0x1000)) == second);
  CHECK(heap.find_covering(at(0x1fff)) == second);
  CHECK(heap.find_covering(at(0xffff))->state() == Block::State::free);
  CHECK(heap.find_covering(at(0x10000)) == nullptr);
  CHECK(heap.find_covering(reinterpret_cast<void*>(kBase - 1)) == nullptr);
  CHECK(heap.covers(at(0xffff)));
  CHECK_FALSE(heap.covers(at(0x10000)));
}

TEST_CASE_FIXTURE(OneSegment, "holding the middle of a free block leaves the rest free") {
  Block& free = *heap.free_blocks(kUnowned).best_fit(1);
  Block& middle = heap.hold(free, kBase + 0x4000, 0x2000);
  heap.validate();
  CHECK(middle.state() == Block::State::held);
  CHECK(heap.free_count() == 2);
  CHECK(heap.free_bytes() == 0xe000);
  CHECK(heap.take(0xb000, 0xb000, kRed) == nullptr);
  heap.release_held(middle, Block::State::unmapped, kUnowned);
  heap.validate();
  CHECK(heap.unmapped().size() == 1);
  CHECK_FALSE(heap.covers(at(0x4000)));
  CHECK(heap.find_covering(at(0x4000)) == &middle);
  CHECK(heap.free_count() == 2);
  Block& again = heap.hold(middle, kBase + 0x4000, 0x2000);
  heap.release_held(again, Block::State::free, kUnowned);
  CHECK(heap.free_count() == 1);
  CHECK(heap.unmapped().empty());
  CHECK(heap.largest_free_bytes() == 0x10000);
}

TEST_CASE_FIXTURE(OneSegment, "unmapped neighbors are merged, whichever owners they had") {
  const std::vector<Block*> row = take_row(16, kRed);
  for (const std::size_t index : {3, 5, 4}) {
    heap.release(*row[index], index == 4 ? kBlue : kRed);
    Block& held = heap.hold(*row[index], row[index]->address, 0x1000);
    heap.release_held(held, Block::State::unmapped, kUnowned);
    heap.validate();
  }
  REQUIRE(heap.unmapped().size() == 1);
  CHECK(heap.unmapped().begin()->second->bytes == 0x3000);
  CHECK(heap.take(0x1000, 0x1000, kRed) == nullptr);
}

TEST_CASE_FIXTURE(OneSegment,
                  "held, pending and allocated memory is neither merged nor allocated") {
  const std::vector<Block*> row = take_row(16, kRed);
  heap.set_pending(*row[4]);
  row[4]->uses.marks_left = 1;
  heap.release(*row[6], kRed);
  heap.hold(*row[6], row[6]->address, 0x1000);
  heap.release(*row[5], kRed);
  heap.validate();
  CHECK(heap.free_count() == 1);
  CHECK(heap.largest_free_bytes() == 0x1000);
  heap.release_held(*row[6], Block::State::free, kRed);
  CHECK(heap.largest_free_bytes() == 0x2000);
}

TEST_CASE("blocks of different segments never merge, adjacent or not") {
  BlockHeap heap;
  for (const std::uintptr_t address : {kBase + 0x1000, kBase, kBase + 0x2000, kBase + 0x8000})
    heap.release_held(heap.add_segment(address, 0x1000), Block::State::free, kRed);
  heap.validate();
  CHECK(heap.free_count() == 4);
  CHECK(heap.take(0x1200, 0x1200, kRed) == nullptr);
  CHECK(heap.find_covering(at(0x2fff))->address == kBase + 0x2000);
  CHECK(heap.find_covering(at(0x3000)) == nullptr);
  CHECK(heap.take(0x1000, 0x1000, kRed)->data() == at(0));
}

TEST_CASE("a segment that is held as a whole is removed, and its range may come back") {
  BlockHeap heap;
  for (int round = 0; round < 3; ++round) {
    heap.release_held(heap.add_segment(kBase, 0x4000), Block::State::free, kRed);
    Block* block = heap.take(0x1000, 0x1000, kRed);
    heap.release(*block, kRed);
    Block& whole = heap.hold(*heap.free_blocks(kRed).best_fit(1), kBase, 0x4000);
    CHECK(whole.is_whole_segment());
    heap.remove_segment(heap.detach_segment(whole));
    heap.validate();
    CHECK(heap.segments().empty());
    CHECK(heap.free_bytes() == 0);
    CHECK_FALSE(heap.covers(at(0)));
  }
}

TEST_CASE_FIXTURE(OneSegment, "a step that the state of a block does not allow stops the process") {
  Block* block = heap.take(0x1000, 0x1000, kRed);
  Block* pending = heap.take(0x1000, 0x1000, kRed);
  heap.set_pending(*pending);
  pending->uses.marks_left = 1;
  Block& free = *heap.free_blocks(kUnowned).best_fit(1);
  CHECK(stops_the_process([&] { heap.hold(*block, block->address, block->bytes); }));
  CHECK(stops_the_process([&] { heap.hold(free, free.address, free.bytes + 512); }));
  CHECK(stops_the_process([&] { heap.hold(free, free.address - 512, 512); }));
  CHECK(stops_the_process([&] { heap.release_held(free, Block::State::free, kRed); }));
  CHECK(stops_the_process([&] { heap.release(free, kRed); }));
  CHECK(stops_the_process([&] { heap.release(*pending, kRed); }));
  CHECK(stops_the_process([&] { heap.set_pending(*pending); }));
  CHECK(stops_the_process([&] { static_cast<void>(heap.detach_segment(free)); }));
  CHECK(stops_the_process([&] { heap.add_segment(kBase, 512); }));
  Block& part = heap.hold(free, free.address, 0x1000);
  CHECK(stops_the_process([&] { static_cast<void>(heap.detach_segment(part)); }));
  CHECK(stops_the_process([&] { heap.release_held(part, Block::State::allocated, kRed); }));
  CHECK_FALSE(stops_the_process([&] { heap.release_held(part, Block::State::free, kRed); }));
}

TEST_CASE_FIXTURE(OneSegment, "validate stops the process if a block or a sum is inconsistent") {
  const std::vector<Block*> row = take_row(4, kRed);
  heap.release(*row[1], kRed);
  heap.set_pending(*row[2]);
  row[2]->uses.marks_left = 1;
  Block& live = *row[0];
  Block& free = *row[1];
  Block& pending = *row[2];
  CHECK_FALSE(stops_the_process([&] { heap.validate(); }));
  const auto caught = [&](auto&& corrupt) {
    return stops_the_process([&] {
      corrupt();
      heap.validate();
    });
  };
  CHECK(caught([&] { live.bytes += 512; }));
  CHECK(caught([&] { live.bytes = 0; }));
  CHECK(caught([&] { free.bytes -= 512; }));
  CHECK(caught([&] { live.address = live.address + 512; }));
  CHECK(caught([&] { free.prev = nullptr; }));
  CHECK(caught([&] { live.next = &pending; }));
  CHECK(caught([&] { live.prev = &pending; }));
  CHECK(caught([&] { live.set_bytes_requested(0); }));
  CHECK(caught([&] { live.set_state(Block::State::pending); }));
  CHECK(caught([&] { live.set_state(Block::State::held); }));
  CHECK(caught([&] { free.set_state(Block::State::allocated); }));
  CHECK(caught([&] { free.set_state(Block::State::held); }));
  CHECK(caught([&] { free.set_state(Block::State::unmapped); }));
  CHECK(caught([&] { free.owner = kBlue; }));
  CHECK(caught([&] { free.freed_at = heap.serial() + 1; }));
  CHECK(caught([&] { pending.set_state(Block::State::allocated); }));
  CHECK(caught([&] { pending.uses.marks_left = 0; }));
  CHECK(caught([&] { live.uses.marks_left = 1; }));
}

}  // namespace block_heap_test
