// SPDX-License-Identifier: Apache-2.0
// Which free pieces are joined: the rules one by one, and small random heaps where every choice
// there is can be tried. A heap is a row of pieces, written from its low end, with granules of 256
// KiB.
#include "memory/source/stitch.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

namespace stitch_test {

using namespace berth;

namespace {

constexpr std::size_t kGranule = 256_KiB;
constexpr std::uintptr_t kBase = 64 * kGranule;
constexpr OwnerId kRed = 1;
constexpr OwnerId kBlue = 2;
constexpr OwnerId kInUse = 99;  ///< no owner: the piece stays held

struct Piece {
  std::size_t bytes;
  OwnerId owner;
};

struct Heap {
  explicit Heap(const std::vector<Piece>& pieces) {
    std::size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.bytes;
    heap.set_granule_bytes(kGranule);
    Block* rest = &heap.add_segment(kBase, bytes);
    for (const Piece& piece : pieces) {
      Block* const block = rest;
      bytes -= piece.bytes;
      if (bytes > 0) rest = &heap.split(*block, piece.bytes);
      if (piece.owner != kInUse) heap.release_held(*block, Block::State::free, piece.owner);
    }
    heap.validate();
  }
  const Stitch* choose(std::size_t bytes, OwnerId owner, std::size_t fresh_max = 0) {
    return stitcher.choose(heap, bytes, owner, fresh_max);
  }

  BlockHeap heap;
  Stitcher stitcher{kGranule};
};

std::size_t offset(const Extent& extent) {
  return extent.address - kBase;
}

/// The parts in the order in which they are mapped; those that are new memory have no source.
std::vector<Extent> parts_of(const Stitch& stitch) {
  std::vector<Extent> parts;
  if (stitch.tail.bytes > 0) parts.push_back(stitch.tail);
  parts.insert(parts.end(), stitch.whole.begin(), stitch.whole.end());
  // As if new memory came at a granule's address.
  if (stitch.fresh_granules > 0)
    parts.push_back({nullptr, stitch.fresh_skipped_bytes, stitch.fresh_bytes});
  if (stitch.head.bytes > 0) parts.push_back(stitch.head);
  return parts;
}

/// Stops the test where the parts are not memory that `owner` may have, or cannot be mapped so that
/// their bytes follow each other.
void check_stitch(const Stitch& stitch, std::size_t bytes, OwnerId owner) {
  const std::vector<Extent> parts = parts_of(stitch);
  REQUIRE_FALSE(parts.empty());
  std::size_t sum = 0;
  const std::size_t begin = parts.front().address % kGranule;
  for (const Extent& part : parts) {
    REQUIRE(part.bytes > 0);
    const bool follows = part.address % kGranule == (begin + sum) % kGranule;
    REQUIRE(follows);
    sum += part.bytes;
    const bool ends_with_granule = (part.address + part.bytes) % kGranule == 0;
    const bool fills_its_granules = ends_with_granule || &part == &parts.back();
    REQUIRE(fills_its_granules);
    if (part.source == nullptr) continue;
    REQUIRE(part.source->state() == Block::State::free);
    const bool may_have = part.source->owner == owner || part.source->owner == kUnowned;
    REQUIRE(may_have);
    const bool inside =
        part.source->address <= part.address && part.address + part.bytes <= part.source->end();
    REQUIRE(inside);
  }
  REQUIRE(sum == bytes);
  REQUIRE(stitch.fresh_skipped_bytes < kGranule);
  REQUIRE(stitch.fresh_skipped_bytes + stitch.fresh_bytes <= stitch.fresh_granules * kGranule);
  REQUIRE(stitch.fresh_granules * kGranule - stitch.fresh_skipped_bytes - stitch.fresh_bytes <
          kGranule);
  if (stitch.tail.bytes > 0) REQUIRE((stitch.tail.address + stitch.tail.bytes) % kGranule == 0);
  if (stitch.head.bytes > 0) REQUIRE(stitch.head.address % kGranule == 0);
  const auto by_address = [](const Extent& a, const Extent& b) { return a.address < b.address; };
  REQUIRE(std::is_sorted(stitch.whole.begin(), stitch.whole.end(), by_address));

  std::vector<Extent> apart = parts;
  std::erase_if(apart, [](const Extent& part) { return part.source == nullptr; });
  std::sort(apart.begin(), apart.end(), by_address);
  for (std::size_t index = 1; index < apart.size(); ++index)
    REQUIRE(apart[index - 1].address + apart[index - 1].bytes <= apart[index].address);
}

}  // namespace

TEST_CASE("whole free granules that lie apart make a block, the rest of the last one stays free") {
  Heap test({{kGranule, kRed}, {kGranule, kInUse}, {kGranule, kRed}, {kGranule, kInUse}});
  const Stitch* stitch = test.choose(2 * kGranule - 4_KiB, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, 2 * kGranule - 4_KiB, kRed);
  REQUIRE(stitch->whole.size() == 2);
  CHECK(offset(stitch->whole[0]) == 0);
  CHECK(offset(stitch->whole[1]) == 2 * kGranule);
  CHECK(stitch->whole[1].bytes == kGranule - 4_KiB);
  CHECK(stitch->fresh_granules == 0);
}

TEST_CASE("the owner's granules are used first, then unowned ones") {
  Heap test({{kGranule, kUnowned},
             {kGranule, kInUse},
             {2 * kGranule, kRed},
             {kGranule, kInUse},
             {kGranule, kUnowned},
             {kGranule, kInUse},
             {kGranule, kRed}});
  const Stitch* stitch = test.choose(4 * kGranule, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, 4 * kGranule, kRed);
  REQUIRE(stitch->whole.size() == 3);
  CHECK(offset(stitch->whole[0]) == 0);
  CHECK(offset(stitch->whole[1]) == 2 * kGranule);
  CHECK(offset(stitch->whole[2]) == 7 * kGranule);
}

TEST_CASE("the free end of one granule and the free beginning of another replace a whole one") {
  Heap test({{100_KiB, kInUse},
             {156_KiB, kRed},
             {kGranule, kInUse},
             {120_KiB, kRed},
             {136_KiB, kInUse},
             {kGranule, kRed}});
  const std::size_t bytes = kGranule - 4_KiB;
  const Stitch* stitch = test.choose(bytes, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, bytes, kRed);
  CHECK(offset(stitch->tail) == 100_KiB);
  CHECK(stitch->tail.bytes == 156_KiB);
  CHECK(offset(stitch->head) == 2 * kGranule);
  CHECK(stitch->head.bytes == 96_KiB);  // what is too much comes off the end
  CHECK(stitch->whole.empty());
}

TEST_CASE(
    "the free end and the free beginning of one granule around a block in use serve one stitch") {
  Heap test({{128_KiB, kRed}, {64_KiB, kInUse}, {64_KiB, kRed}, {kGranule, kInUse}});
  const Stitch* stitch = test.choose(192_KiB, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, 192_KiB, kRed);
  CHECK(offset(stitch->tail) == 192_KiB);
  CHECK(offset(stitch->head) == 0);
}

TEST_CASE("a hole that reaches neither end of its granule is not used") {
  Heap test(
      {{4_KiB, kInUse}, {248_KiB, kRed}, {4_KiB, kInUse}, {kGranule, kRed}, {kGranule, kInUse}});
  CHECK(test.choose(kGranule + 64_KiB, kRed) == nullptr);
  const Stitch* stitch = test.choose(kGranule + 64_KiB, kRed, 1);
  REQUIRE(stitch != nullptr);
  CHECK(stitch->fresh_granules == 1);
}

TEST_CASE("a stitch includes unowned memory, and never memory of other streams") {
  for (const OwnerId owner : {kBlue, kUnowned}) {
    Heap test({{kGranule, kRed}, {kGranule, kInUse}, {kGranule, owner}, {kGranule, kInUse}});
    const Stitch* stitch = test.choose(2 * kGranule, kRed);
    REQUIRE((stitch != nullptr) == (owner == kUnowned));
    if (stitch != nullptr) check_stitch(*stitch, 2 * kGranule, kRed);
    CHECK(test.choose(2 * kGranule, kUnowned) == nullptr);
  }
}

TEST_CASE("new granules supply the missing bytes, as few as possible and at most the maximum") {
  Heap test({{kGranule, kRed}, {kGranule, kInUse}});
  CHECK(test.choose(3 * kGranule, kRed, 1) == nullptr);
  const Stitch* stitch = test.choose(3 * kGranule - 4_KiB, kRed, 5);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, 3 * kGranule - 4_KiB, kRed);
  CHECK(stitch->fresh_granules == 2);
  CHECK(stitch->fresh_bytes == 2 * kGranule - 4_KiB);
  CHECK(stitch->fresh_skipped_bytes == 0);
}

TEST_CASE("new granules before a free beginning skip bytes at their start") {
  Heap test({{128_KiB, kRed}, {128_KiB, kInUse}});
  const Stitch* stitch = test.choose(kGranule + 100_KiB, kRed, 1);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, kGranule + 100_KiB, kRed);
  CHECK(stitch->fresh_granules == 1);
  CHECK(stitch->fresh_skipped_bytes == 28_KiB);
  CHECK(stitch->head.bytes == 128_KiB);
}

TEST_CASE("the smallest sufficient piece is taken") {
  Heap ends({{100_KiB, kInUse},
             {156_KiB, kRed},
             {kGranule, kInUse},
             {200_KiB, kInUse},
             {56_KiB, kRed},
             {120_KiB, kInUse},
             {136_KiB, kRed},
             {2 * kGranule, kInUse},
             {kGranule, kRed},
             {kGranule, kInUse}});
  const Stitch* stitch = ends.choose(kGranule + 130_KiB, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, kGranule + 130_KiB, kRed);
  CHECK(offset(stitch->tail) == 3 * kGranule + 120_KiB);

  Heap beginnings({{156_KiB, kRed},
                   {100_KiB, kInUse},
                   {56_KiB, kRed},
                   {200_KiB, kInUse},
                   {136_KiB, kRed},
                   {120_KiB + kGranule, kInUse},
                   {kGranule, kRed},
                   {kGranule, kInUse}});
  stitch = beginnings.choose(kGranule + 130_KiB, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, kGranule + 130_KiB, kRed);
  CHECK(offset(stitch->head) == 2 * kGranule);
}

TEST_CASE("whole granules come from the smallest ranges first: large ones serve large requests") {
  Heap test({{4 * kGranule, kRed},
             {kGranule, kInUse},
             {2 * kGranule, kRed},
             {kGranule, kInUse},
             {kGranule, kRed},
             {kGranule, kInUse}});
  const Stitch* stitch = test.choose(3 * kGranule, kRed);
  REQUIRE(stitch != nullptr);
  check_stitch(*stitch, 3 * kGranule, kRed);
  REQUIRE(stitch->whole.size() == 2);
  CHECK(offset(stitch->whole[0]) == 5 * kGranule);
  CHECK(offset(stitch->whole[1]) == 8 * kGranule);
}

TEST_CASE("small requests are not made of pieces") {
  Heap test(
      {{200_KiB, kInUse}, {56_KiB, kRed}, {56_KiB, kRed}, {200_KiB, kInUse}, {kGranule, kInUse}});
  CHECK(test.choose(60_KiB, kRed) == nullptr);
  CHECK(test.choose(64_KiB, kRed) != nullptr);
}

TEST_CASE("a stitch of one request says nothing about the next") {
  Heap test(
      {{kGranule, kRed}, {128_KiB, kInUse}, {128_KiB, kRed}, {128_KiB, kRed}, {128_KiB, kInUse}});
  const Stitch* first = test.choose(kGranule + 256_KiB, kRed, 1);
  REQUIRE(first != nullptr);
  check_stitch(*first, kGranule + 256_KiB, kRed);
  const Stitch* second = test.choose(3 * kGranule, kRed, 2);
  REQUIRE(second != nullptr);
  check_stitch(*second, 3 * kGranule, kRed);
  const Stitch* third = test.choose(kGranule, kRed);
  REQUIRE(third != nullptr);
  check_stitch(*third, kGranule, kRed);
  CHECK(third->fresh_granules == 0);
}

namespace {

enum class Kind { neither, tail, head, both };

struct Cost {
  std::size_t fresh;
  std::size_t whole;
  Kind kind;
  std::size_t left_bytes;  ///< of the granules and pieces that are used

  [[nodiscard]] std::pair<std::size_t, std::size_t> granules() const { return {fresh, whole}; }
};

/// What each choice of pieces costs, from free blocks of `block_bytes_min` and more.
std::vector<Cost> all_costs(const BlockHeap& heap, std::size_t bytes, OwnerId owner,
                            std::size_t block_bytes_min) {
  std::vector<std::size_t> tails{0};
  std::vector<std::size_t> heads{0};
  std::size_t whole_there = 0;
  heap.for_each([&](const Block& block) {
    const bool may_have = block.owner == owner || block.owner == kUnowned;
    if (block.state() != Block::State::free || !may_have) return;
    if (block.bytes < block_bytes_min) return;
    // Granule by granule: what of it the block has.
    for (std::uintptr_t granule = block.address / kGranule * kGranule; granule < block.end();
         granule += kGranule) {
      const std::uintptr_t begin = std::max<std::uintptr_t>(granule, block.address);
      const std::uintptr_t end = std::min(granule + kGranule, block.end());
      if (end - begin == kGranule) {
        ++whole_there;
      } else if (end == granule + kGranule) {
        tails.push_back(end - begin);
      } else if (begin == granule) {
        heads.push_back(end - begin);
      }
    }
  });
  std::vector<Cost> costs;
  for (const std::size_t tail : tails) {
    for (const std::size_t head : heads) {
      std::size_t whole = 0;
      while (tail + whole * kGranule + head < bytes) ++whole;
      const Kind kind = tail == 0 ? (head == 0 ? Kind::neither : Kind::head)
                                  : (head == 0 ? Kind::tail : Kind::both);
      costs.push_back({whole > whole_there ? whole - whole_there : 0, whole, kind,
                       tail + whole * kGranule + head - bytes});
    }
  }
  return costs;
}

/// What a stitch costs, by the sizes of the pieces that it takes its ends from.
Cost cost_of(const Stitch& stitch, std::size_t bytes) {
  std::size_t there = 0;
  const auto add = [&](const Extent& extent) {
    const std::uintptr_t begin = extent.address / kGranule * kGranule;
    const std::uintptr_t end = (extent.address + extent.bytes + kGranule - 1) / kGranule * kGranule;
    there += std::min(end, extent.source->end()) -
             std::max<std::uintptr_t>(begin, extent.source->address);
    return (end - begin) / kGranule;
  };
  if (stitch.tail.bytes > 0) add(stitch.tail);
  if (stitch.head.bytes > 0) add(stitch.head);
  std::size_t whole = stitch.fresh_granules;
  for (const Extent& extent : stitch.whole) whole += add(extent);
  const Kind kind = stitch.tail.bytes == 0 ? (stitch.head.bytes == 0 ? Kind::neither : Kind::head)
                                           : (stitch.head.bytes == 0 ? Kind::tail : Kind::both);
  return {stitch.fresh_granules, whole, kind, there + stitch.fresh_granules * kGranule - bytes};
}

}  // namespace

TEST_CASE("in random heaps the stitch needs the fewest new granules, then the fewest whole ones") {
  int stitched = 0;
  int refused = 0;
  int in_pieces = 0;
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
    std::vector<Piece> pieces;
    std::size_t left = (2 + below(5)) * kGranule;
    while (left > 0) {
      const std::size_t some = below(3) == 0 ? kGranule * (1 + below(2)) : 512 * (1 + below(700));
      const std::size_t bytes = std::min(left, some);
      constexpr OwnerId kOwners[] = {kInUse, kInUse, kRed, kRed, kRed, kBlue, kUnowned};
      pieces.push_back({bytes, kOwners[below(std::size(kOwners))]});
      left -= bytes;
    }
    Heap test(pieces);
    for (int request = 0; request < 8; ++request) {
      std::size_t bytes = 64_KiB + 512 * below(2500);
      if (below(4) == 0) bytes = kGranule * (1 + below(4));
      const OwnerId owner = below(4) == 0 ? kUnowned : kRed;
      const std::size_t fresh_max = below(4);
      CAPTURE(bytes);
      CAPTURE(owner);
      CAPTURE(fresh_max);
      const std::vector<Cost> costs = all_costs(test.heap, bytes, owner, 0);
      const Cost least = *std::ranges::min_element(costs, {}, &Cost::granules);
      const Stitch* stitch = test.choose(bytes, owner, fresh_max);
      REQUIRE((stitch != nullptr) == (least.fresh <= fresh_max));
      // Small pieces are looked at only where nothing else will do.
      const std::size_t missing = bytes % kGranule;
      const std::vector<Cost> worthy =
          all_costs(test.heap, bytes, owner, missing == 0 ? kGranule : missing / 16);
      const Cost least_worthy = *std::ranges::min_element(worthy, {}, &Cost::granules);
      if (stitch == nullptr) {
        ++refused;
        continue;
      }
      check_stitch(*stitch, bytes, owner);
      const Cost cost = cost_of(*stitch, bytes);
      if (least_worthy.fresh > fresh_max) continue;
      REQUIRE(cost.granules() <= least_worthy.granules());
      for (const Cost& other : worthy) {
        if (other.kind == cost.kind && other.granules() == cost.granules())
          REQUIRE(cost.left_bytes <= other.left_bytes);
      }
      ++stitched;
      if (cost.kind == Kind::both) ++in_pieces;
    }
  }
  CHECK(stitched > 1000);
  CHECK(refused > 1000);
  CHECK(in_pieces > 1000);
}

}  // namespace stitch_test
