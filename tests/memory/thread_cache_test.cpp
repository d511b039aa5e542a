// SPDX-License-Identifier: Apache-2.0
// The cache of one thread, with blocks from a heap as the allocator hands them out.
#include "memory/thread/thread_cache.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "heap/block_heap.hpp"
#include "support/scarce_memory.hpp"

namespace thread_cache_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::uintptr_t kBase = std::uintptr_t{1} << 40;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;
constexpr StreamKey kRedStream = 0x1000;
constexpr StreamKey kBlueStream = 0x2000;

/// A cache that knows both streams, and a heap.
struct CacheFixture {
  CacheFixture() {
    heap.release_held(heap.add_segment(kBase, std::size_t{1} << 30), Block::State::free, kUnowned);
    cache.add_route(kRed, kRedStream);
    cache.add_route(kBlue, kBlueStream);
  }
  /// A live block, as a miss hands it out.
  Block& block(std::size_t bytes, OwnerId owner) {
    return *heap.take((bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment, bytes,
                      owner);
  }
  bool put(const Block& block) { return cache.put(block.data(), heap.blocks_in_use()); }
  std::vector<Block*> flush() {
    std::vector<Block*> blocks;
    cache.fronts().flush([&](Block& block) { blocks.push_back(&block); });
    return blocks;
  }

  BlockHeap heap;
  ThreadCache cache;
};

}  // namespace

TEST_CASE("a cache without streams is empty and caches nothing") {
  BlockHeap heap;
  heap.release_held(heap.add_segment(kBase, 4096), Block::State::free, kUnowned);
  Block& block = *heap.take(512, 512, kRed);
  ThreadCache cache;
  CHECK(cache.take(512, kRedStream) == nullptr);
  CHECK(cache.take(512, kNoStream) == nullptr);
  CHECK_FALSE(cache.owner_of(kRedStream).has_value());
  CHECK_FALSE(cache.put(block.data(), heap.blocks_in_use()));
  CHECK_FALSE(cache.put(nullptr, heap.blocks_in_use()));
  CHECK(block.state() == Block::State::allocated);
  CHECK_FALSE(cache.fronts().keeps(kRed));
  CHECK(cache.ledger().blocks_allocated.change() == 0);
}

TEST_CASE_FIXTURE(CacheFixture, "the block taken last is put back and taken again") {
  Block& kept = block(1000, kRed);
  REQUIRE(put(kept));
  REQUIRE(cache.take(1000, kRedStream) == kept.data());
  CHECK(cache.take(1000, kRedStream) == nullptr);
  for (const std::size_t bytes : {std::size_t{513}, std::size_t{1024}}) {
    CHECK(put(kept));
    CHECK(kept.state() == Block::State::cached);
    CHECK_FALSE(put(kept));  // twice
    CHECK(cache.take(512, kRedStream) == nullptr);
    CHECK(cache.take(1025, kRedStream) == nullptr);
    CHECK(cache.take(0, kRedStream) == nullptr);
    CHECK(cache.take(bytes, kBlueStream) == nullptr);
    CHECK(cache.take(bytes, kRedStream) == kept.data());
    CHECK(kept.state() == Block::State::allocated);
    CHECK(kept.bytes_requested() == bytes);
    CHECK(cache.take(bytes, kRedStream) == nullptr);  // twice
  }
  CHECK(cache.ledger().allocations == 3);
  CHECK(cache.ledger().bytes_requested.change() == 1024 - 1000);
}

TEST_CASE_FIXTURE(CacheFixture, "the block put back last is part of the cache") {
  Block& kept = block(1000, kRed);
  Block& other = block(1000, kRed);
  REQUIRE(put(kept));
  REQUIRE(cache.take(1000, kRedStream) == kept.data());
  REQUIRE(put(kept));
  SUBCASE("a flush finds it") {
    CHECK(flush() == std::vector{&kept});
  }
  SUBCASE("keeps() reports it") {
    CHECK(cache.fronts().keeps(kRed));
  }
  SUBCASE("another request of its size gets it") {
    CHECK(cache.take(1000, kRedStream) == kept.data());
    CHECK(flush().empty());
  }
  SUBCASE("another block of its size goes on top of it") {
    CHECK(put(other));
    CHECK(cache.take(1000, kRedStream) == other.data());
    CHECK(cache.take(1000, kRedStream) == kept.data());
  }
  SUBCASE("a request of another size leaves it to its stack") {
    CHECK(put(block(5000, kRed)));
    CHECK(cache.take(5000, kRedStream) != nullptr);
    CHECK(cache.take(1000, kRedStream) == kept.data());
  }
  SUBCASE("drop() of its owner returns it") {
    std::vector<Block*> dropped;
    cache.drop(kRed, [&](Block& block) { dropped.push_back(&block); });
    CHECK(dropped == std::vector{&kept});
    CHECK(cache.take(1000, kRedStream) == nullptr);
  }
  SUBCASE("drop_all() returns it") {
    std::vector<Block*> dropped;
    cache.drop_all([&](Block& block) { dropped.push_back(&block); });
    CHECK(dropped == std::vector{&kept});
    CHECK(cache.take(1000, kRedStream) == nullptr);
    CHECK(cache.take(1000, kRedStream) == nullptr);
  }
}

TEST_CASE_FIXTURE(CacheFixture,
                  "a block put back or taken last is never mixed with blocks of another size") {
  for (const bool is_back : {true, false}) {
    CAPTURE(is_back);
    Block& first = block(512, kRed);
    REQUIRE(put(first));
    void* const data = cache.take(512, kRedStream);
    REQUIRE(data == first.data());
    if (is_back) REQUIRE(cache.put(data, heap.blocks_in_use()));
    // More sizes than there are stacks: one of them is bound to want the one of the first.
    for (std::size_t units = 2; units < 1200; ++units) put(block(units * kBlockAlignment, kRed));
    if (!is_back) cache.put(data, heap.blocks_in_use());
    for (std::size_t units = 1; units < 1200; ++units) {
      const void* const taken = cache.take(units * kBlockAlignment, kRedStream);
      if (taken != nullptr) CHECK(heap.find(taken)->bytes == units * kBlockAlignment);
    }
    flush();
  }
}

TEST_CASE_FIXTURE(CacheFixture,
                  "the block taken last is refused if it was used or freed elsewhere") {
  Block& taken = block(1000, kRed);
  REQUIRE(put(taken));
  void* const data = cache.take(1000, kRedStream);
  SUBCASE("another stream uses it") {
    taken.uses = {7, 0};
    CHECK_FALSE(cache.put(data, heap.blocks_in_use()));
  }
  SUBCASE("it was freed elsewhere") {
    heap.release(taken, kRed);
    CHECK_FALSE(cache.put(data, heap.blocks_in_use()));
  }
}

TEST_CASE_FIXTURE(CacheFixture, "a cached block serves any request that rounds to its size") {
  Block& kept = block(1000, kRed);
  REQUIRE(put(kept));
  CHECK(kept.state() == Block::State::cached);
  CHECK(heap.find(kept.data()) == nullptr);
  CHECK(cache.take(512, kRedStream) == nullptr);
  CHECK(cache.take(1025, kRedStream) == nullptr);
  CHECK(cache.take(513, kRedStream) == kept.data());
  CHECK(kept.state() == Block::State::allocated);
  CHECK(kept.bytes_requested() == 513);
  CHECK(kept.uses.list == 0);
  CHECK(cache.take(1000, kRedStream) == nullptr);
  heap.validate();
}

TEST_CASE_FIXTURE(CacheFixture, "blocks are reused last in, first out, for each size and stream") {
  Block& first = block(512, kRed);
  Block& second = block(512, kRed);
  Block& large = block(4096, kRed);
  Block& theirs = block(512, kBlue);
  for (Block* each : {&first, &second, &large, &theirs}) REQUIRE(put(*each));
  heap.validate();
  CHECK(cache.take(512, kBlueStream) == theirs.data());
  CHECK(cache.take(512, kBlueStream) == nullptr);
  CHECK(cache.take(512, kRedStream) == second.data());
  CHECK(cache.take(4096, kRedStream) == large.data());
  CHECK(cache.take(512, kRedStream) == first.data());
  CHECK(cache.take(512, kRedStream) == nullptr);
}

TEST_CASE_FIXTURE(CacheFixture, "the block taken last is put back into its own stack") {
  Block& red = block(512, kRed);
  Block& blue = block(512, kBlue);
  put(red);
  put(blue);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(cache.take(300, kRedStream) == red.data());
    REQUIRE(put(red));
    REQUIRE(cache.take(400, kBlueStream) == blue.data());
    REQUIRE(put(blue));
  }
  CHECK(cache.take(512, kRedStream) == red.data());
  CHECK(cache.take(512, kRedStream) == nullptr);
}

TEST_CASE_FIXTURE(CacheFixture,
                  "only the start of a live block without uses by other streams is cached") {
  Block& live = block(1024, kRed);
  Block& used = block(512, kRed);
  Block& stranger = block(512, 3);
  Block& unowned = block(512, kUnowned);
  used.uses.list = 1;
  CHECK_FALSE(put(used));
  CHECK(used.uses.list == 1);
  CHECK_FALSE(put(stranger));
  CHECK_FALSE(put(unowned));
  const PointerMap& blocks = heap.blocks_in_use();
  CHECK_FALSE(cache.put(nullptr, blocks));
  CHECK_FALSE(cache.put(static_cast<char*>(live.data()) + 512, blocks));
  CHECK_FALSE(cache.put(&cache, blocks));
  CHECK(put(live));
  CHECK_FALSE(put(live));  // twice
  void* const again = cache.take(1024, kRedStream);
  REQUIRE(again == live.data());
  heap.release(live, kRed);
  CHECK_FALSE(cache.put(again, blocks));  // what was taken last may have been freed elsewhere
  used.uses.list = 0;
  CHECK(put(used));
  CHECK(flush() == std::vector<Block*>{&used});
}

TEST_CASE_FIXTURE(CacheFixture,
                  "a block taken last and reallocated elsewhere is cached by its new properties") {
  Block& block = this->block(512, kRed);
  put(block);
  void* const data = cache.take(512, kRedStream);
  REQUIRE(data == block.data());
  SUBCASE("of another stream") {
    heap.release(block, kUnowned);
    Block& other = *heap.take(512, 512, kBlue);
    REQUIRE(other.data() == data);
    CHECK(cache.put(data, heap.blocks_in_use()));
    CHECK(cache.take(512, kRedStream) == nullptr);
    CHECK(cache.take(512, kBlueStream) == data);
  }
  SUBCASE("of another size") {
    heap.release(block, kUnowned);
    Block& other = *heap.take(2048, 2048, kRed);
    REQUIRE(other.data() == data);
    CHECK(cache.put(data, heap.blocks_in_use()));
    CHECK(cache.take(512, kRedStream) == nullptr);
    CHECK(cache.take(2048, kRedStream) == data);
  }
}

TEST_CASE_FIXTURE(CacheFixture,
                  "several handles may lead to one stream's blocks, and no other handle does") {
  cache.add_route(kRed, 0x5000);
  cache.add_route(kUnowned, kNoStream);
  CHECK(cache.owner_of(kRedStream) == kRed);
  CHECK(cache.owner_of(0x5000) == kRed);
  CHECK(cache.owner_of(kBlueStream) == kBlue);
  CHECK(cache.owner_of(kNoStream) == kUnowned);
  CHECK_FALSE(cache.owner_of(0x4000).has_value());
  Block& red = block(512, kRed);
  Block& unowned = block(512, kUnowned);
  put(red);
  put(unowned);
  CHECK(cache.take(512, 0x4000) == nullptr);
  CHECK(cache.take(512, 0x5000) == red.data());
  CHECK(cache.take(512, kNoStream) == unowned.data());
}

TEST_CASE_FIXTURE(CacheFixture, "more streams than places evict each other without losing blocks") {
  constexpr OwnerId kMany = 200;
  std::vector<Block*> blocks;
  for (OwnerId owner = 3; owner < kMany; ++owner) {
    cache.add_route(owner, owner * 0x1000);
    CHECK(cache.owner_of(owner * 0x1000) == owner);
    blocks.push_back(&block(512, owner));
    REQUIRE(put(*blocks.back()));
  }
  int known = 0;
  for (OwnerId owner = 3; owner < kMany; ++owner) {
    const auto found = cache.owner_of(owner * 0x1000);
    const bool right = !found.has_value() || *found == owner;
    CHECK(right);
    if (found) ++known;
    CHECK(cache.fronts().keeps(owner));
  }
  CHECK(known > 0);
  cache.add_route(3, 3 * 0x1000);  // it comes back, and finds what it had
  CHECK(cache.take(512, 3 * 0x1000) == blocks.front()->data());
  CHECK(flush().size() == blocks.size() - 1);
}

TEST_CASE_FIXTURE(CacheFixture, "a stream that took another's place does not get its blocks") {
  int refused = 0;
  for (OwnerId other = 3; other < 200; ++other) {
    const StreamKey other_stream = other * 0x1000;
    cache.add_route(other, other_stream);
    Block& red = block(512, kRed);
    if (!put(red)) ++refused;
    CHECK(cache.take(512, other_stream) == nullptr);
    flush();
  }
  CHECK(refused > 0);
}

TEST_CASE_FIXTURE(CacheFixture, "a flush returns each block once, of all streams or of one") {
  Block& a = block(512, kRed);
  Block& b = block(4096, kRed);
  Block& c = block(512, kBlue);
  for (Block* each : {&a, &b, &c}) REQUIRE(put(*each));
  CHECK(cache.fronts().keeps(kRed));
  std::vector<Block*> red;
  cache.fronts().flush(kRed, [&](Block& block) { red.push_back(&block); });
  std::ranges::sort(red);
  std::vector<Block*> expected{&a, &b};
  std::ranges::sort(expected);
  CHECK(red == expected);
  CHECK_FALSE(cache.fronts().keeps(kRed));
  CHECK(cache.fronts().keeps(kBlue));
  CHECK(cache.take(512, kRedStream) == nullptr);
  CHECK(cache.owner_of(kRedStream) == kRed);  // still known
  cache.fronts().flush(kRed, [](Block&) { FAIL("given out twice"); });
  cache.fronts().flush(77, [](Block&) { FAIL("nobody's"); });
  CHECK(flush() == std::vector<Block*>{&c});
  CHECK(flush().empty());
  heap.release(a, kRed);
  Block& again = block(512, kRed);
  CHECK(put(again));
  CHECK(cache.take(512, kRedStream) == again.data());
}

TEST_CASE_FIXTURE(CacheFixture, "a dropped stream is unknown by each of its handles") {
  cache.add_route(kRed, 0x3000);
  Block& red = block(512, kRed);
  Block& taken = block(1024, kRed);
  Block& blue = block(512, kBlue);
  for (Block* each : {&red, &taken, &blue}) REQUIRE(put(*each));
  REQUIRE(cache.take(1024, kRedStream) == taken.data());
  std::vector<Block*> dropped;
  cache.drop(kRed, [&](Block& block) { dropped.push_back(&block); });
  CHECK(dropped == std::vector<Block*>{&red});
  for (const StreamKey stream : {kRedStream, StreamKey{0x3000}}) {
    CHECK_FALSE(cache.owner_of(stream).has_value());
    CHECK(cache.take(512, stream) == nullptr);
  }
  CHECK_FALSE(put(taken));  // though it was taken last
  CHECK(cache.take(512, kBlueStream) == blue.data());
  cache.add_route(9, kRedStream);  // the handle is another stream's now
  CHECK(cache.owner_of(kRedStream) == 9);
  CHECK(cache.take(512, kRedStream) == nullptr);
}

TEST_CASE_FIXTURE(CacheFixture,
                  "the ledger counts taken and cached blocks, in requested and allocated bytes") {
  Block& a = block(1000, kRed);
  Block& b = block(512, kRed);
  put(a);
  put(b);
  Ledger& ledger = cache.ledger();
  CHECK(ledger.bytes_requested.change() == -1512);
  CHECK(ledger.bytes_allocated.change() == -1536);
  CHECK(ledger.blocks_allocated.change() == -2);
  CHECK(ledger.allocations == 0);
  cache.take(700, kRedStream);
  CHECK(ledger.bytes_requested.change() == -812);
  CHECK(ledger.bytes_allocated.change() == -512);
  CHECK(ledger.blocks_allocated.change() == -1);
  CHECK(ledger.allocations == 1);
  CHECK(cache.take(4096, kRedStream) == nullptr);
  CHECK(ledger.allocations == 1);
}

TEST_CASE_FIXTURE(CacheFixture,
                  "a full cache accepts no blocks until it is told the number of live blocks") {
  cache.set_blocks_live(16);  // few: a thread may keep thousands
  std::vector<Block*> blocks;
  for (int index = 0; index < 4096; ++index) blocks.push_back(&block(512, kRed));
  std::size_t kept = 0;
  while (kept < blocks.size() && put(*blocks[kept])) ++kept;
  CHECK(kept > 1000);
  REQUIRE(kept < blocks.size());
  CHECK(cache.should_flush());
  CHECK(blocks[kept]->state() == Block::State::allocated);
  REQUIRE(cache.take(512, kRedStream) != nullptr);
  CHECK_FALSE(cache.should_flush());
  Gauge gauge{};
  cache.ledger().blocks_allocated.apply_to(gauge);
  cache.set_blocks_live(2);
  CHECK_FALSE(cache.should_flush());
}

TEST_CASE_FIXTURE(CacheFixture,
                  "a cache shrinks when few blocks are left in use, and with the last one") {
  const auto kept_of = [&](std::uint64_t live) {
    Gauge gauge{};
    cache.ledger().blocks_allocated.apply_to(gauge);
    cache.set_blocks_live(live);
    std::uint64_t kept = 0;
    while (put(block(512, kRed))) ++kept;
    for (Block* each : flush()) heap.release(*each, kRed);
    return kept;
  };
  const std::uint64_t few = kept_of(63);
  CHECK(few > 1000);
  const std::uint64_t of_many = kept_of(160);
  CHECK(of_many > 80);
  CHECK(of_many < 160);
  CHECK(kept_of(20) < 20);  // still tidying
  CHECK(kept_of(1) == 0);
  CHECK(kept_of(0) == few);  // begun anew
  CHECK(kept_of(63) == few);
  CHECK(kept_of(64) < 64);
  CHECK(kept_of(1'000'000) == few);
}

TEST_CASE_FIXTURE(CacheFixture, "while others forbid entry nothing is taken or put") {
  if (!BiasedLock::is_available()) return;
  Block& kept = block(512, kRed);
  Block& live = block(512, kRed);
  put(kept);
  cache.lock().forbid();
  CHECK(cache.take(512, kRedStream) == nullptr);
  CHECK_FALSE(put(live));
  cache.lock().wait_until_left();  // at once: whoever was refused has left
  cache.lock().permit();
  CHECK(put(live));
  CHECK(cache.take(512, kRedStream) == live.data());
}

TEST_CASE_FIXTURE(CacheFixture, "adding a stream changes nothing if host memory is short") {
  Block& kept = block(512, kRed);
  REQUIRE(put(kept));
  REQUIRE(cache.take(512, kRedStream) == kept.data());
  REQUIRE(put(kept));  // back, as what was taken last
  constexpr OwnerId kNew = 9;
  const OwnerId owners = 40;
  std::size_t refused = 0;
  for (OwnerId owner = kNew; owner < kNew + owners; ++owner) {
    const StreamKey stream = owner * 0x1000;
    for (std::size_t granted = 0;; ++granted) {
      const auto known_before = cache.owner_of(stream);  // of another handle with the same place
      const std::size_t bytes_before = cache.bytes_metadata();
      const ScarceMemory scarce(granted);
      try {
        cache.add_route(owner, stream);
        break;
      } catch (const std::bad_alloc&) {
        ++refused;
      }
      if (cache.owner_of(stream) != known_before) throw std::runtime_error("routed");
      if (cache.bytes_metadata() != bytes_before) throw std::runtime_error("kept");
    }
    CHECK(cache.owner_of(stream) == owner);
  }
  CHECK(refused > owners);
  CHECK(flush() == std::vector{&kept});
}

}  // namespace thread_cache_test
