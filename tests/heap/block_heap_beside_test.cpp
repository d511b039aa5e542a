// SPDX-License-Identifier: Apache-2.0
// Unowned memory next to an owner's free memory: only as much as needed passes to the owner.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "heap/block_heap.hpp"

namespace block_heap_beside_test {

using namespace berth;

namespace {

constexpr std::uintptr_t kBase = 0x7000'0000'0000;
constexpr std::size_t kGranule = 2_MiB;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;

struct Heap {
  explicit Heap(std::size_t bytes, bool has_granules = true) {
    if (has_granules) heap.set_granule_bytes(kGranule);
    heap.release_held(heap.add_segment(kBase, bytes), Block::State::free, kUnowned);
  }
  /// Takes rows of blocks from the beginning on, for kRed.
  std::vector<Block*> row(const std::vector<std::size_t>& sizes) {
    std::vector<Block*> blocks;
    for (const std::size_t bytes : sizes) blocks.push_back(heap.take(bytes, bytes, kBlue));
    return blocks;
  }
  [[nodiscard]] std::size_t free_bytes(OwnerId owner) const {
    return heap.free_blocks(owner).bytes();
  }

  BlockHeap heap;
};

}  // namespace

TEST_CASE("a hole of an owner is extended by exactly the unowned memory that it lacks") {
  Heap test(16_MiB);
  const std::vector<Block*> row = test.row({1_MiB, 3_MiB, 2_MiB, 3_MiB, 1_MiB, 6_MiB});
  SUBCASE("from the memory behind") {
    test.heap.release(*row[2], kRed);
    test.heap.release(*row[3], kUnowned);
    REQUIRE(test.heap.extend_hole(kRed, 4_MiB));
    CHECK(test.free_bytes(kUnowned) == 1_MiB);
    CHECK(test.heap.take(4_MiB, 4_MiB, kRed)->address == kBase + 4_MiB);
  }
  SUBCASE("from the end of the memory in front") {
    test.heap.release(*row[2], kRed);
    test.heap.release(*row[1], kUnowned);
    REQUIRE(test.heap.extend_hole(kRed, 4_MiB));
    CHECK(test.free_bytes(kUnowned) == 1_MiB);
    CHECK(test.heap.take(4_MiB, 4_MiB, kRed)->address == kBase + 2_MiB);
  }
  SUBCASE("from both sides if one is not enough") {
    for (const std::size_t index : {1U, 3U}) test.heap.release(*row[index], kUnowned);
    test.heap.release(*row[2], kRed);
    REQUIRE(test.heap.extend_hole(kRed, 7_MiB));
    CHECK(test.free_bytes(kUnowned) == 1_MiB);
    CHECK(test.heap.take(7_MiB, 7_MiB, kRed) != nullptr);
  }
  SUBCASE("across another free block of the owner") {
    for (const std::size_t index : {0U, 4U}) test.heap.release(*row[index], kRed);
    for (const std::size_t index : {1U, 3U}) test.heap.release(*row[index], kUnowned);
    test.heap.release(*row[2], kRed);
    REQUIRE(test.heap.extend_hole(kRed, 10_MiB));
    CHECK(test.free_bytes(kUnowned) == 0);
    CHECK(test.heap.take(10_MiB, 10_MiB, kRed)->address == kBase);
  }
  SUBCASE("not at all if there is too little, and never from other owners") {
    for (const std::size_t index : {1U, 3U}) test.heap.release(*row[index], kUnowned);
    test.heap.release(*row[2], kRed);
    CHECK_FALSE(test.heap.extend_hole(kRed, 8_MiB + 512));
    CHECK_FALSE(test.heap.extend_hole(kBlue, 4_MiB));
    CHECK(test.free_bytes(kUnowned) == 6_MiB);
    CHECK_FALSE(test.heap.extend_hole(kUnowned, 4_MiB));
  }
  test.heap.validate();
}

TEST_CASE("a hole is extended in a heap without granules, too") {
  Heap test(16_MiB, false);
  const std::vector<Block*> row = test.row({1_MiB, 3_MiB, 2_MiB, 10_MiB});
  test.heap.release(*row[1], kRed);
  test.heap.release(*row[2], kUnowned);
  REQUIRE(test.heap.extend_hole(kRed, 4_MiB));
  CHECK(test.free_bytes(kUnowned) == 1_MiB);
  test.heap.validate();
}

TEST_CASE("unowned parts of a granule pass to the owner of its other free parts") {
  Heap test(16_MiB);
  const std::vector<Block*> row = test.row({3_MiB, 3_MiB, 1_MiB, 512_KiB, 6_MiB + 512_KiB, 2_MiB});
  SUBCASE("the unowned part is the end") {
    test.heap.release(*row[0], kRed);      // 0 to 3 MiB
    test.heap.release(*row[1], kUnowned);  // 3 to 6
    CHECK(test.heap.complete_granules(kRed) == 1);
    CHECK(test.heap.whole_granules(kRed) == 2);
    CHECK(test.free_bytes(kUnowned) == 2_MiB);
    CHECK(test.heap.complete_granules(kRed) == 0);
  }
  SUBCASE("the unowned part is the beginning") {
    test.heap.release(*row[0], kUnowned);
    test.heap.release(*row[1], kRed);
    CHECK(test.heap.complete_granules(kRed) == 1);
    CHECK(test.heap.whole_granules(kRed) == 2);
    CHECK(test.free_bytes(kUnowned) == 2_MiB);
  }
  SUBCASE("a block within one granule gets both ends or none") {
    test.heap.release(*row[3], kRed);      // 7 to 7.5 MiB
    test.heap.release(*row[4], kUnowned);  // 7.5 to 14
    CHECK(test.heap.complete_granules(kRed) == 0);
    CHECK(test.free_bytes(kUnowned) == 6_MiB + 512_KiB);
    test.heap.release(*row[2], kUnowned);  // 6 to 7
    CHECK(test.heap.complete_granules(kRed) == 1);
    CHECK(test.heap.whole_granules(kRed) == 1);
    CHECK(test.free_bytes(kUnowned) == 6_MiB);
  }
  SUBCASE("the unowned part is the middle") {
    test.heap.release(*row[2], kRed);      // 6 to 7 MiB
    test.heap.release(*row[3], kUnowned);  // 7 to 7.5
    test.heap.release(*row[4], kRed);      // 7.5 to 14
    CHECK(test.heap.complete_granules(kRed) == 1);
    CHECK(test.heap.whole_granules(kRed) == 4);
    CHECK(test.free_bytes(kUnowned) == 0);
  }
  SUBCASE("nothing passes if a part is in use") {
    test.heap.release(*row[1], kRed);      // 3 to 6 MiB
    test.heap.release(*row[2], kUnowned);  // 6 to 7
    CHECK(test.heap.complete_granules(kRed) == 0);
  }
  test.heap.validate();
}

TEST_CASE("in random heaps memory passes in one direction only, and live blocks do not change") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    Heap test(64_MiB);
    std::vector<Block*> blocks;
    for (;;) {
      const std::size_t bytes = (1 + random() % 40) * 128_KiB;
      Block* const block = test.heap.take(bytes, bytes, kBlue);
      if (block == nullptr) break;
      blocks.push_back(block);
    }
    for (Block* const block : blocks) {
      if (random() % 4 != 0) test.heap.release(*block, random() % 2 == 0 ? kRed : kUnowned);
    }
    const std::size_t in_use = test.heap.in_use_count();
    const std::size_t red = test.free_bytes(kRed);
    const std::size_t unowned = test.free_bytes(kUnowned);
    const std::size_t whole = test.heap.whole_granules(kRed) + test.heap.whole_granules(kUnowned);
    const std::size_t wanted = (1 + random() % 100) * 128_KiB;
    if (round % 2 == 0) {
      test.heap.complete_granules(kRed);
      const std::size_t now = test.heap.whole_granules(kRed) + test.heap.whole_granules(kUnowned);
      CHECK(now >= whole);
      int again = 0;  // what was joined may have another end now
      while (test.heap.complete_granules(kRed) > 0) REQUIRE(++again < 40);
    } else if (test.heap.extend_hole(kRed, wanted)) {
      CHECK(test.heap.free_blocks(kRed).largest_bytes() >= wanted);
      CHECK(test.free_bytes(kRed) - red <= wanted);
    } else {
      CHECK(test.free_bytes(kRed) == red);
    }
    CHECK(test.free_bytes(kRed) >= red);
    CHECK(test.free_bytes(kRed) + test.free_bytes(kUnowned) == red + unowned);
    CHECK(test.heap.in_use_count() == in_use);
    test.heap.validate();
  }
}

}  // namespace block_heap_beside_test
