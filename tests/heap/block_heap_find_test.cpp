// SPDX-License-Identifier: Apache-2.0
// Which block an address belongs to, in heaps of many blocks.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_heap.hpp"

namespace block_heap_find_test {

using namespace berth;

namespace {

constexpr std::uintptr_t kBase = 0x7000'0000'0000;
constexpr OwnerId kRed = 1;

const void* pointer(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

/// What a walk of all blocks says.
const Block* covering(const BlockHeap& heap, std::uintptr_t address) {
  const Block* found = nullptr;
  heap.for_each([&](const Block& block) {
    if (address - block.address < block.bytes) found = &block;
  });
  return found;
}

void check(const BlockHeap& heap, std::uintptr_t address) {
  const Block* const expected = covering(heap, address);
  REQUIRE(heap.find_covering(pointer(address)) == expected);
  const bool in_use = expected != nullptr && (expected->state() == Block::State::allocated ||
                                              expected->state() == Block::State::cached);
  REQUIRE(heap.find_in_use(pointer(address)) == (in_use ? expected : nullptr));
  const bool is_mapped = expected != nullptr && expected->state() != Block::State::unmapped;
  REQUIRE(heap.covers(pointer(address)) == is_mapped);
}

/// Seconds of processor time for a question about the middle of a block of `count`.
double seconds_for_question(std::size_t count) {
  BlockHeap heap;
  heap.release_held(heap.add_segment(kBase, count * 1024), Block::State::free, kUnowned);
  std::vector<Block*> blocks;
  for (std::size_t index = 0; index < count; ++index) blocks.push_back(heap.take(1024, 1024, kRed));
  const auto ask = [&](std::size_t index) {
    const Block& block = *blocks[index % count];
    return heap.find_covering(pointer(block.address + 512)) == &block;
  };
  bool is_right = ask(count - 1);
  double best = 1;
  for (int round = 0; round < 20; ++round) {
    const std::clock_t begin = std::clock();
    for (std::size_t index = 0; index < 2000; ++index) is_right = ask(index * 7919) && is_right;
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  CHECK(is_right);
  return best;
}

}  // namespace

TEST_CASE("each address belongs to the block that a walk finds, as blocks come and go") {
  std::mt19937 random(5);
  BlockHeap heap;
  constexpr std::size_t kSegment = 0x80'0000;
  for (const std::uintptr_t begin : {kBase, kBase + 2 * kSegment, kBase + 3 * kSegment})
    heap.release_held(heap.add_segment(begin, kSegment), Block::State::free, kUnowned);
  std::vector<Block*> live;
  for (int step = 0; step < 1500; ++step) {
    const unsigned kind = random() % 8;
    if (kind < 4) {
      const std::size_t bytes = 512 * (1 + random() % (random() % 8 == 0 ? 600 : 20));
      if (Block* block = heap.take(bytes, bytes, OwnerId(1 + random() % 3))) live.push_back(block);
    } else if (kind < 7 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      heap.release(*live.back(), live.back()->owner);
      live.pop_back();
    } else if (Block* hole = heap.free_blocks(kUnowned).best_fit(0x1000)) {
      Block& held = heap.hold(*hole, hole->address, 0x1000);
      heap.release_held(held, random() % 2 == 0 ? Block::State::unmapped : Block::State::free,
                        kUnowned);
    }
    for (int question = 0; question < 3; ++question)
      check(heap, kBase - 0x1000 + random() % (4 * kSegment + 0x2000));
    if (!live.empty()) {
      const Block& block = *live[random() % live.size()];
      check(heap, block.address);
      check(heap, block.address + random() % block.bytes);
      check(heap, block.end());
    }
    if (step % 50 == 0) heap.validate();
  }
}

TEST_CASE("detaching a segment removes its blocks from the index") {
  BlockHeap heap;
  for (int round = 0; round < 3; ++round) {
    heap.release_held(heap.add_segment(kBase, 0x10000), Block::State::free, kUnowned);
    std::vector<Block*> row;
    for (int index = 0; index < 100; ++index) row.push_back(heap.take(512, 512, kRed));
    CHECK(heap.find_in_use(pointer(row[90]->address + 1)) == row[90]);
    heap.validate();
    for (Block* block : row) heap.release(*block, kUnowned);
    CHECK(heap.find_in_use(pointer(kBase + 1)) == nullptr);
    Block& whole = heap.hold(*heap.free_blocks(kUnowned).best_fit(1), kBase, 0x10000);
    auto detached = heap.detach_segment(whole);
    CHECK(heap.find_covering(pointer(kBase)) == nullptr);
    CHECK_FALSE(heap.covers(pointer(kBase)));
    heap.remove_segment(std::move(detached));
    heap.validate();
  }
}

TEST_CASE("the cost of an address lookup does not grow with the number of blocks") {
  const double few = seconds_for_question(10);
  const double many = seconds_for_question(100'000);
  CHECK(many < 50 * few);  // caches; a walk takes thousands of times as long
}

}  // namespace block_heap_find_test
