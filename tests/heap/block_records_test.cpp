// SPDX-License-Identifier: Apache-2.0
#include "heap/block_records.hpp"

#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "heap/block_heap.hpp"
#include "support/death.hpp"
#include "support/sanitizers.hpp"

namespace block_records_test {

using namespace berth;
using namespace berth::test;

namespace {

void check_is_new(const Block& block) {
  CHECK(block.address == 0);
  CHECK(block.bytes == 0);
  CHECK(block.freed_at == 0);
  CHECK(block.prev == nullptr);
  CHECK(block.next == nullptr);
  CHECK(block.owner == kUnowned);
  CHECK(block.state() == Block::State::held);
  CHECK_FALSE(bool{block.is_stitched});
  CHECK(block.slack_bytes() == 0);
}

}  // namespace

TEST_CASE("records cost no host memory until they are needed") {
  BlockRecords records;
  CHECK(records.bytes_committed() == 0);
  records.make();
  CHECK(records.bytes_committed() >= sizeof(Block));
  CHECK(records.bytes_committed() < 1'000'000);
}

TEST_CASE("each block has a record of its own, that stays where it is as long as it is used") {
  BlockRecords records;
  std::vector<Block*> blocks;
  for (std::uintptr_t index = 0; index < 100'000; ++index) {
    blocks.push_back(&records.make());
    blocks.back()->address = index;
  }
  bool intact = true;
  for (std::uintptr_t index = 0; index < blocks.size(); ++index)
    intact = intact && blocks[index]->address == index;
  CHECK(intact);
  CHECK(records.bytes_committed() >= blocks.size() * sizeof(Block));
  blocks.front()->next = blocks.back();  // as far apart as they are
  CHECK(blocks.front()->next == blocks.back());
}

TEST_CASE("a block's number is its own, never 0, and leads back to it") {
  BlockRecords records;
  std::set<std::uint32_t> numbers;
  for (int index = 0; index < 10'000; ++index) {
    Block& block = records.make();
    const std::uint32_t number = records.number_of(block);
    CHECK(number != 0);
    CHECK(numbers.insert(number).second);
    CHECK(&records.at(number) == &block);
  }
}

TEST_CASE("a recycled record is reset and reused, without more memory") {
  BlockRecords records;
  std::vector<Block*> blocks;
  for (int index = 0; index < 5000; ++index) blocks.push_back(&records.make());
  const std::size_t committed = records.bytes_committed();
  const std::set<Block*> known(blocks.begin(), blocks.end());
  for (int round = 0; round < 3; ++round) {
    for (Block* block : blocks) {
      block->address = 0x1000;
      block->bytes = 1024;
      block->freed_at = 9;
      block->prev = blocks.front();
      block->owner = 3;
      block->is_stitched = true;
      block->set_bytes_requested(1000);
      block->set_state(Block::State::allocated);
      records.recycle(*block);
    }
    for (Block*& block : blocks) {
      block = &records.make();
      REQUIRE(known.count(block) == 1);
    }
    check_is_new(*blocks.front());
    check_is_new(*blocks.back());
    CHECK(std::set<Block*>(blocks.begin(), blocks.end()) == known);
  }
  CHECK(records.bytes_committed() == committed);
  for (int index = 0; index < 20'000; ++index) records.make().bytes = 512;  // more than ever before
  CHECK(records.bytes_committed() > committed);
}

TEST_CASE("a recycled record has the address and state of no block") {
  BlockRecords records;
  Block& block = records.make();
  block.address = 0x1000;
  block.set_state(Block::State::allocated);
  records.recycle(block);
  CHECK(block.address == 0);
  CHECK(block.state() == Block::State::held);
}

TEST_CASE("reserved records need no more memory, and spare records count") {
  BlockRecords records;
  records.reserve(50'000);
  const std::size_t committed = records.bytes_committed();
  CHECK(committed >= 50'000 * sizeof(Block));
  std::vector<Block*> blocks;
  for (int index = 0; index < 50'000; ++index) blocks.push_back(&records.make());
  CHECK(records.bytes_committed() == committed);
  for (Block* block : blocks) records.recycle(*block);
  records.reserve(50'000);
  CHECK(records.bytes_committed() == committed);
  records.reserve(committed / sizeof(Block) + 1);
  CHECK(records.bytes_committed() > committed);
}

#ifndef BERTH_UNDER_ASAN  // which needs memory of its own at any moment
TEST_CASE("reserved records, and no others, can be made when the host has no memory") {
  const auto reserve_then_run_out = [] {
    BlockRecords records;
    Block& first = records.make();
    records.reserve(20'000);
    const std::size_t there = records.bytes_committed() / sizeof(Block) - 1;
    // No data segment, and no private writable mapping, grows from here on.
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_DATA, &none) != 0) std::abort();
    for (std::size_t index = 0; index < there; ++index) records.make();
    bool refused = false;
    try {
      records.make();
    } catch (const OutOfMemory&) {
      refused = true;
    }
    if (!refused) std::abort();
    records.recycle(first);
    records.make();  // the next call works
  };
  CHECK_FALSE(stops_the_process(reserve_then_run_out));
}
#endif

// What PointerMap::find_unguarded() does where the block that it comes past goes meanwhile: the
// thread sanitizer looks at this.
TEST_CASE("a lookup is safe while other threads recycle and make records") {
  BlockHeap heap;
  heap.release_held(heap.add_segment(0x10'0000, 0x400000), Block::State::free, kUnowned);
  std::vector<Block*> mine;
  std::mt19937 random(1);
  // Odd sizes, so that addresses collide in the map.
  const auto take = [&](OwnerId owner) {
    const std::size_t bytes = 512 * (1 + random() % 64);
    return heap.take(bytes, bytes, owner);
  };
  for (int index = 0; index < 24; ++index) mine.push_back(take(1));
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    for (int round = 0; round < 3000; ++round) {
      std::vector<Block*> theirs;
      for (int index = 0; index < 20; ++index) theirs.push_back(take(2));
      for (Block* block : theirs) heap.release(*block, 2);
    }
    is_over = true;
  });
  bool is_right = true;
  while (!is_over) {
    for (const Block* block : mine) {
      const Block* const found = heap.blocks_in_use().find_unguarded(block->address);
      is_right = is_right && (found == nullptr || found == block);  // it may be missed
    }
    // What is nobody's address comes past whatever lies where it would be.
    for (std::uintptr_t address = 0x10'0000 + 256; address < 0x20'0000; address += 512)
      is_right = is_right && heap.blocks_in_use().find_unguarded(address) == nullptr;
  }
  other.join();
  CHECK(is_right);
  heap.validate();
}

}  // namespace block_records_test
