// SPDX-License-Identifier: Apache-2.0
// BlockUses on a host that is short of memory.
#include <cstddef>
#include <cstdint>
#include <new>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "memory/pending_blocks.hpp"
#include "support/scarce_memory.hpp"

namespace block_uses_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

std::vector<OwnerId> streams_of(const BlockUses& uses, const Block& block) {
  std::vector<OwnerId> streams;
  uses.for_each(block, [&](const BlockUses::Use& use) { streams.push_back(use.stream); });
  return streams;
}

/// Whether adding went well with so many calls of operator new; how many it made.
bool add_with(std::size_t granted, BlockUses& uses, Block& block, const BlockUses::Use& use) {
  const ScarceMemory scarce(granted);
  try {
    uses.add(block, use);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a use changes nothing if any of its allocations fails") {
  std::size_t refused = 0;
  for (OwnerId count = 1; count <= 40; ++count) {
    BlockUses uses;
    Block& block = used_block({});
    for (OwnerId stream = 1; stream < count; ++stream) uses.add(block, {stream, record(uses)});
    const std::vector<OwnerId> before = streams_of(uses, block);
    BlockUses::Use use{count, record(uses)};
    for (std::size_t granted = 0; !add_with(granted, uses, block, use); ++granted) {
      ++refused;
      REQUIRE(granted < 10);
      REQUIRE(streams_of(uses, block) == before);
      REQUIRE(use.end.event.use_count() == 1);
    }
    REQUIRE(streams_of(uses, block).size() == count);
    block.set_state(Block::State::pending);
    uses.defer(block);
    REQUIRE(uses.mark_count() == count);
    for (const OwnerId stream : before) REQUIRE(uses.has_marks(stream));
  }
  CHECK(refused >= 40);
}

TEST_CASE("a refused use leaves the uses that it would have replaced") {
  BlockUses uses;
  Block& block = used_block({});
  uses.add(block, {1, record(uses)});
  Block& other = used_block({});
  std::size_t refused = 0;
  for (OwnerId stream = 2; refused == 0; ++stream) {  // until the entries are used up
    uses.add(other, {stream, {}});
    refused += add_with(0, uses, block, {1, record(uses)}) ? 0 : 1;
    REQUIRE(streams_of(uses, block) == std::vector<OwnerId>{1});
    REQUIRE(stream < 100);
  }
  CHECK_FALSE(uses.lasts(block, 1));
}

TEST_CASE("freeing a block with uses allocates no memory") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    BlockUses uses;
    std::vector<Block*> blocks;
    for (int index = 0; index < 100; ++index) {
      Block& block = *blocks.emplace_back(&used_block({}));
      for (OwnerId stream = 1; stream <= 7; ++stream) {
        if (random() % 2 == 0) continue;
        uses.add(block, {stream, random() % 2 == 0 ? RecordedEvent{} : record(uses)});
      }
      if (!uses.any(block)) uses.add(block, {8, {}});
    }
    const SharedEvent sealed = fake_event();
    std::size_t calls = 0;
    std::size_t ready = 0;
    {
      const ScarceMemory scarce(0);
      for (Block* block : blocks) {
        if (random() % 8 == 0) {
          uses.drop_if(*block, [](const BlockUses::Use&) { return true; });
          ++ready;
          continue;
        }
        block->set_state(Block::State::pending);
        uses.defer(*block);
        if (random() % 4 == 0) uses.seal(1 + random() % 8, uses.now(), sealed);
      }
      for (OwnerId stream = 1; stream <= 8; ++stream) {
        uses.seal(stream, uses.now(), sealed);
        while (uses.has_marks(stream)) {
          const RecordedEvent oldest = uses.front(stream);
          ready += uses.complete(stream, oldest.event, [](Block&) {});
        }
      }
      calls = scarce.calls();
    }
    CHECK(calls == 0);
    CHECK(ready == blocks.size());
    CHECK_FALSE(uses.has_deferred());
    CHECK(uses.mark_count() == 0);
  }
}

}  // namespace block_uses_memory_test
