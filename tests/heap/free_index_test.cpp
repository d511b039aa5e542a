// SPDX-License-Identifier: Apache-2.0
#include "heap/free_index.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_records.hpp"
#include "support/death.hpp"

namespace free_index_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Kept to the end: records name each other.
Block& free_block(std::uintptr_t address, std::size_t bytes) {
  static BlockRecords records;
  Block& block = records.make();
  block.address = address;
  block.bytes = bytes;
  block.set_state(Block::State::free);
  return block;
}

/// A vector by size, then address, and linear search.
struct SortedVector {
  void insert(Block& block) {
    blocks.push_back(&block);
    std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    });
  }
  void erase(Block& block) { blocks.erase(std::find(blocks.begin(), blocks.end(), &block)); }
  [[nodiscard]] Block* best_fit(std::size_t bytes) const {
    for (Block* block : blocks) {
      if (block->bytes >= bytes) return block;
    }
    return nullptr;
  }
  std::vector<Block*> blocks;
};

}  // namespace

TEST_CASE("an empty index fits nothing") {
  const FreeIndex index;
  CHECK(index.empty());
  CHECK(index.count() == 0);
  CHECK(index.bytes() == 0);
  CHECK(index.largest_bytes() == 0);
  CHECK(index.best_fit(0) == nullptr);
  CHECK(index.best_fit(512) == nullptr);
}

TEST_CASE("the best fit is the smallest block that is large enough, exact size included") {
  FreeIndex index;
  Block& small = free_block(0x1000, 512);
  Block& middle = free_block(0x2000, 2048);
  Block& large = free_block(0x4000, 8192);
  for (Block* block : {&middle, &large, &small}) index.insert(*block);
  CHECK(index.best_fit(1) == &small);
  CHECK(index.best_fit(512) == &small);
  CHECK(index.best_fit(513) == &middle);
  CHECK(index.best_fit(2048) == &middle);
  CHECK(index.best_fit(2049) == &large);
  CHECK(index.best_fit(8192) == &large);
  CHECK(index.best_fit(8193) == nullptr);
  CHECK(index.largest_bytes() == 8192);
  CHECK(index.bytes() == 512 + 2048 + 8192);
}

TEST_CASE("among blocks of one size the one at the lowest address is taken") {
  FreeIndex index;
  Block& high = free_block(0x9000, 1024);
  Block& low = free_block(0x1000, 1024);
  Block& middle = free_block(0x5000, 1024);
  for (Block* block : {&high, &low, &middle}) index.insert(*block);
  CHECK(index.best_fit(1024) == &low);
  index.erase(low);
  CHECK(index.best_fit(1) == &middle);
  index.erase(middle);
  CHECK(index.best_fit(1) == &high);
}

TEST_CASE("random use follows a sorted vector") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<Block*> blocks;
    for (std::uintptr_t number = 0; number < 60; ++number) {
      // Few sizes, so that many blocks tie.
      blocks.push_back(&free_block(0x10'0000 - number * 0x4000, 512 * (1 + random() % 12)));
    }
    FreeIndex index;
    SortedVector model;
    for (int operation = 0; operation < 4000; ++operation) {
      Block& block = *blocks[random() % blocks.size()];
      if (index.contains(block)) {
        index.erase(block);
        model.erase(block);
      } else {
        index.insert(block);
        model.insert(block);
      }
      std::size_t bytes = 0;
      for (const Block* each : model.blocks) bytes += each->bytes;
      REQUIRE(index.bytes() == bytes);
      REQUIRE(index.count() == model.blocks.size());
      REQUIRE(index.empty() == model.blocks.empty());
      REQUIRE(index.largest_bytes() == (model.blocks.empty() ? 0 : model.blocks.back()->bytes));
      std::vector<Block*> in_order;
      index.for_each([&](Block& each) { in_order.push_back(&each); });
      REQUIRE(in_order == model.blocks);
      const std::size_t wanted = random() % (13 * 512);
      REQUIRE(index.best_fit(wanted) == model.best_fit(wanted));
    }
  }
}

TEST_CASE("blocks that change their place and size at random stay in order") {
  std::mt19937 random(7);
  const auto random_bytes = [&] { return std::size_t{512} * (64 + random() % 64); };
  FreeIndex index;
  SortedVector model;
  for (int count = 0; count < 40; ++count) {
    Block& block = free_block(0x10'0000 * (count + 1), random_bytes());
    index.insert(block);
    model.insert(block);
  }
  for (int operation = 0; operation < 4000; ++operation) {
    Block& block = *model.blocks[random() % model.blocks.size()];
    // By little most often, as when a small block is cut off: within its bin.
    const std::size_t bytes = operation % 8 == 0 ? random_bytes() : block.bytes ^ 512;
    const std::uintptr_t address = block.address ^ (random() % 2 * 512);
    model.erase(block);
    index.move(block, address, bytes);
    model.insert(block);
    REQUIRE(block.bytes == bytes);
    REQUIRE(block.address == address);
    std::vector<Block*> in_order;
    index.for_each([&](Block& each) { in_order.push_back(&each); });
    REQUIRE(in_order == model.blocks);
    const std::size_t wanted = random_bytes();
    REQUIRE(index.best_fit(wanted) == model.best_fit(wanted));
  }
}

TEST_CASE("the best fit is right after random changes without other queries") {
  std::mt19937 random(11);
  const auto random_bytes = [&] { return std::size_t{512} * (1 + random() % 48); };
  std::vector<Block*> out;
  for (int count = 0; count < 24; ++count)
    out.push_back(&free_block(0x10'0000 * (count + 1), random_bytes()));
  FreeIndex index;
  SortedVector model;
  for (int operation = 0; operation < 20000; ++operation) {
    // Few blocks now and many then: the same ones again and again, or ever others.
    const bool grows = operation / 1000 % 2 == 0;
    if (!out.empty() && random() % 8 < (grows ? 3 : 1)) {
      std::swap(out[random() % out.size()], out.back());
      index.insert(*out.back());
      model.insert(*out.back());
      out.pop_back();
    } else if (!model.blocks.empty() && random() % 8 < (grows ? 1 : 3)) {
      Block& block = *model.blocks[random() % model.blocks.size()];
      index.erase(block);
      model.erase(block);
      out.push_back(&block);
    } else if (Block* const block = model.best_fit(random_bytes())) {
      model.erase(*block);
      index.move(*block, block->address ^ 512, random_bytes());
      model.insert(*block);
    }
    const std::size_t wanted = random_bytes();
    REQUIRE(index.best_fit(wanted) == model.best_fit(wanted));
    REQUIRE(index.count() == model.blocks.size());
  }
}

TEST_CASE("adding a live or present block, or removing an absent one, stops the process") {
  FreeIndex index;
  Block& block = free_block(0x1000, 512);
  Block& held = free_block(0x2000, 512);
  held.set_state(Block::State::held);
  CHECK(stops_the_process([&] { index.insert(held); }));
  CHECK(stops_the_process([&] { index.erase(block); }));
  index.insert(block);
  CHECK(stops_the_process([&] { index.insert(block); }));
}

}  // namespace free_index_test
