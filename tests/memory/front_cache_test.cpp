// SPDX-License-Identifier: Apache-2.0
#include "memory/thread/front_cache.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_records.hpp"

namespace front_cache_test {

using namespace berth;

namespace {

struct FrontFixture {
  Block& make(std::size_t bytes) {
    Block& block = records.make();
    block.bytes = bytes;
    block.owner = front.owner();
    block.set_state(Block::State::cached);
    return block;
  }
  /// False where its size has no place.
  bool push(Block& block) {
    FrontCache::Stack* const stack = front.place(block.bytes);
    if (stack == nullptr) return false;
    front.push(*stack, block);
    return true;
  }
  Block* pop(std::size_t bytes) {
    FrontCache::Stack* const stack = front.find(bytes);
    return stack == nullptr ? nullptr : &stack->pop();
  }

  BlockRecords records;
  FrontCache front{7};
};

}  // namespace

TEST_CASE_FIXTURE(FrontFixture, "an empty cache has no block of any size, 0 included") {
  CHECK(front.owner() == 7);
  CHECK_FALSE(front.was_used());
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{512}, ~std::size_t{0}})
    CHECK(front.find(bytes) == nullptr);
  front.flush([](Block&) { FAIL("there is none"); });
}

TEST_CASE_FIXTURE(FrontFixture, "a stack has blocks of exactly the size that a request rounds to") {
  Block& block = make(1024);
  REQUIRE(push(block));
  CHECK(front.was_used());
  CHECK(front.find(512) == nullptr);
  CHECK(front.find(1025) == nullptr);
  for (const std::size_t bytes : {513, 1000, 1024}) {
    FrontCache::Stack* const stack = front.find(bytes);
    REQUIRE(stack != nullptr);
    CHECK(stack->bytes() == 1024);
    CHECK_FALSE(stack->empty());
  }
  block.uses.marks_left = 99;  // where the link lies
  push(block);
  CHECK(pop(1024) == &block);
  CHECK(block.uses.list == 0);
  CHECK(block.uses.marks_left == 0);
}

TEST_CASE_FIXTURE(FrontFixture, "a stack is last in, first out") {
  Block* blocks[] = {&make(512), &make(512), &make(512)};
  for (Block* block : blocks) push(*block);
  CHECK(pop(512) == blocks[2]);
  push(*blocks[2]);
  CHECK(pop(512) == blocks[2]);
  CHECK(pop(512) == blocks[1]);
  CHECK(pop(512) == blocks[0]);
  CHECK(pop(512) == nullptr);
}

TEST_CASE_FIXTURE(
    FrontFixture,
    "a size without a place is refused while its places are taken, and gets one afterwards") {
  std::vector<Block*> kept;
  Block* refused = nullptr;
  for (std::size_t bytes = 512; refused == nullptr; bytes += 512) {
    Block& block = make(bytes);
    if (push(block))
      kept.push_back(&block);
    else
      refused = &block;
  }
  CHECK(kept.size() > 100);
  CHECK(front.find(refused->bytes) == nullptr);
  for (Block* block : kept) {
    CHECK(pop(block->bytes) == block);
    if (push(*refused)) break;
    push(*block);
    CHECK(push(*refused) == false);
  }
  for (Block* block : kept) pop(block->bytes);
  if (pop(refused->bytes) == nullptr) CHECK(push(*refused));
}

TEST_CASE_FIXTURE(FrontFixture, "a size beyond the maximum of a stack has no place") {
  CHECK(front.place((std::size_t{1} << 32) * kBlockAlignment) == nullptr);
  CHECK(front.place(((std::size_t{1} << 32) + 1) * kBlockAlignment) == nullptr);
  CHECK(front.place(((std::size_t{1} << 32) - 1) * kBlockAlignment) != nullptr);
}

TEST_CASE_FIXTURE(FrontFixture, "a flush returns every block once, and the cache is empty") {
  std::map<Block*, int> seen;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t size = 1; size <= 40; ++size) {
      for (std::size_t index = 0; index < size % 4; ++index) {
        Block& block = make(512 * size);
        REQUIRE(push(block));
        seen[&block] = 0;
      }
    }
    // Empty stacks that had blocks are visited, too.
    Block* const taken = pop(512);
    REQUIRE(taken != nullptr);
    seen.erase(taken);
    front.flush([&](Block& block) {
      REQUIRE(seen.count(&block) == 1);
      ++seen[&block];
      CHECK(block.uses.list == 0);
    });
    for (const auto& [block, count] : seen) CHECK(count == 1);
    CHECK_FALSE(front.was_used());
    for (std::size_t size = 1; size <= 40; ++size) CHECK(front.find(512 * size) == nullptr);
    seen.clear();
  }
}

TEST_CASE_FIXTURE(FrontFixture, "blocks moved to another cache go below its own blocks") {
  FrontCache other(7);
  Block& had = make(512);
  Block* blocks[] = {&make(512), &make(512), &make(512)};
  other.push(*other.place(512), had);
  for (Block* block : blocks) push(*block);
  front.move_to(other, [](Block&) { FAIL("each has a place"); });
  CHECK_FALSE(front.was_used());
  CHECK(pop(512) == nullptr);
  CHECK(other.was_used());
  for (Block* expected : {&had, blocks[2], blocks[1], blocks[0]}) {
    FrontCache::Stack* const stack = other.find(512);
    REQUIRE(stack != nullptr);
    CHECK(&stack->pop() == expected);
  }
  CHECK(other.find(512) == nullptr);
}

TEST_CASE_FIXTURE(FrontFixture,
                  "blocks without a place in the other cache are returned, and the rest moves") {
  FrontCache other(7);
  std::size_t bytes = 512;
  for (; other.place(bytes) != nullptr; bytes += 512) other.push(*other.place(bytes), make(bytes));
  Block* homeless[] = {&make(bytes), &make(bytes)};
  Block& housed = make(512);
  for (Block* block : {homeless[0], homeless[1], &housed}) REQUIRE(push(*block));
  std::vector<Block*> given_out;
  front.move_to(other, [&](Block& block) { given_out.push_back(&block); });
  CHECK(given_out == std::vector<Block*>{homeless[1], homeless[0]});
  CHECK_FALSE(front.was_used());
  CHECK(front.find(bytes) == nullptr);
  CHECK(other.find(bytes) == nullptr);
  other.find(512)->pop();
  REQUIRE(other.find(512) != nullptr);
  CHECK(&other.find(512)->pop() == &housed);
}

TEST_CASE_FIXTURE(FrontFixture, "random use follows a table of stacks and loses no block") {
  std::mt19937 random(3);
  const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
  std::map<std::size_t, std::vector<Block*>> model;
  std::size_t refusals = 0;
  for (int operation = 0; operation < 60'000; ++operation) {
    const std::size_t bytes = 512 * (1 + below(3000));
    if (below(2) == 0) {
      Block& block = make(bytes);
      if (push(block)) {
        model[bytes].push_back(&block);
      } else {
        REQUIRE(model[bytes].empty());  // a size that is there has its place
        records.recycle(block);
        ++refusals;
      }
    } else if (below(500) == 0) {
      std::size_t count = 0;
      for (const auto& [size, blocks] : model) count += blocks.size();
      front.flush([&](Block& block) {
        REQUIRE(block.bytes % 512 == 0);
        --count;
        records.recycle(block);
      });
      REQUIRE(count == 0);
      model.clear();
    } else {
      std::vector<Block*>& stack = model[bytes];
      Block* const block = pop(bytes - below(512));
      REQUIRE(block == (stack.empty() ? nullptr : stack.back()));
      if (block == nullptr) continue;
      stack.pop_back();
      records.recycle(*block);
    }
  }
  CHECK(refusals > 100);
}

}  // namespace front_cache_test
