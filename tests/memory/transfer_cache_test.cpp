// SPDX-License-Identifier: Apache-2.0
#include "memory/thread/transfer_cache.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_records.hpp"
#include "support/scarce_memory.hpp"

namespace transfer_cache_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;

/// A thread that keeps three blocks of 512 bytes of red's, and has kept nothing of blue's.
struct TransferFixture {
  TransferFixture() {
    FrontCache& front = giver.add_owner(kRed);
    giver.add_owner(kBlue);
    for (Block*& block : blocks) {
      block = &make(512, front.owner());
      front.push(*front.place(512), *block);
    }
    transfers.take_over(giver, [](Block&) { FAIL("each has a place"); });
  }

  Block& make(std::size_t bytes, OwnerId owner) {
    Block& block = records.make();
    block.bytes = bytes;
    block.owner = owner;
    block.set_state(Block::State::cached);
    return block;
  }

  BlockRecords records;
  std::vector<Block*> blocks = std::vector<Block*>(3);
  ThreadCache giver;
  TransferCache transfers;
};

}  // namespace

TEST_CASE_FIXTURE(TransferFixture, "a thread does not keep a block that it transfers") {
  CHECK_FALSE(giver.fronts().keeps(kRed));
  CHECK(transfers.fronts().keeps(kRed));
  CHECK_FALSE(transfers.fronts().keeps(kBlue));
}

TEST_CASE_FIXTURE(TransferFixture, "a thread that takes one block gets all of its owner and size") {
  FrontCache front(kRed);
  CHECK(transfers.take(kBlue, 512, front) == nullptr);
  CHECK(transfers.take(kRed, 1024, front) == nullptr);
  CHECK(transfers.take(kRed, 512, front) == blocks[2]);
  for (Block* expected : {blocks[1], blocks[0]}) {
    FrontCache::Stack* const stack = front.find(512);
    REQUIRE(stack != nullptr);
    CHECK(&stack->pop() == expected);
  }
  CHECK(front.find(512) == nullptr);
  CHECK(transfers.take(kRed, 512, front) == nullptr);
}

TEST_CASE_FIXTURE(TransferFixture, "a cache without a stack for a size accepts one block") {
  FrontCache full(kRed);
  for (std::size_t bytes = 1024; full.place(512) != nullptr; bytes += 512) {
    if (FrontCache::Stack* const stack = full.place(bytes)) {
      Block& block = make(bytes, full.owner());
      full.push(*stack, block);
    }
  }
  for (Block* expected : {blocks[2], blocks[1], blocks[0]})
    CHECK(transfers.take(kRed, 512, full) == expected);
  CHECK(transfers.take(kRed, 512, full) == nullptr);
}

TEST_CASE_FIXTURE(TransferFixture, "blocks for which the host has no memory go to the visitor") {
  FrontCache& front = giver.add_owner(kBlue);
  Block& blue = make(1024, kBlue);
  front.push(*front.place(1024), blue);
  Block& red = make(512, kRed);
  FrontCache& red_front = giver.add_owner(kRed);
  red_front.push(*red_front.place(512), red);
  std::vector<Block*> visited;
  visited.reserve(2);
  {
    const ScarceMemory scarce(0);
    transfers.take_over(giver, [&](Block& block) { visited.push_back(&block); });
  }
  CHECK(visited == std::vector{&blue});
  CHECK_FALSE(giver.fronts().keeps(kBlue));
  CHECK_FALSE(giver.fronts().keeps(kRed));
  CHECK_FALSE(transfers.fronts().keeps(kBlue));
  std::vector<Block*> kept;
  transfers.fronts().flush([&](Block& block) { kept.push_back(&block); });
  CHECK(kept.size() == 4);
  CHECK(std::ranges::count(kept, &red) == 1);
}

}  // namespace transfer_cache_test
