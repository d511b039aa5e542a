// SPDX-License-Identifier: Apache-2.0
// The index of holes beside a list of them that is searched from end to end.
#include "heap/granule_index.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace berth::test {
namespace {

using Kind = GranuleIndex::Kind;

constexpr std::size_t kGranule = 1 << 16;
constexpr std::uintptr_t kBegin = std::uintptr_t{64} * kGranule;
constexpr std::size_t kHoleUnit = 512;

/// Free blocks of two owners, each in slots of a few granules of its own, and the index of their
/// holes.
class IndexedBlocks {
 public:
  static constexpr std::size_t kSlotGranules = 4;
  static constexpr std::size_t kSlotBytes = kSlotGranules * kGranule;

  explicit IndexedBlocks(std::size_t slots)
      : index_(kBegin, slots * kSlotBytes, kGranule), blocks_(slots), owners_(slots) {}

  void change(std::size_t slot, std::mt19937& random) {
    std::optional<Block>& block = blocks_[slot];
    const auto [address, bytes] = some_range(slot, random);
    if (!block) {
      block.emplace();
      block->address = address;
      block->bytes = bytes;
      owners_[slot] = random() % 2;
      index_.add(holes_[owners_[slot]], *block);
    } else if (random() % 2 == 0) {
      index_.remove(holes_[owners_[slot]], *block);
      block.reset();
    } else {
      // As blocks move in the heap: onto a range that overlaps with what they have.
      const std::uintptr_t from = std::min<std::uintptr_t>(address, block->address);
      const std::size_t to = std::max(address + bytes, block->end());
      index_.remove(holes_[owners_[slot]], *block);
      block->address = from;
      block->bytes = to - from;
      index_.add(holes_[owners_[slot]], *block);
    }
  }
  void clear(std::size_t owner) {
    for (std::size_t slot = 0; slot < blocks_.size(); ++slot) {
      if (!blocks_[slot] || owners_[slot] != owner) continue;
      index_.remove(holes_[owner], *blocks_[slot]);
      blocks_[slot].reset();
    }
    index_.forget(holes_[owner]);
    holes_[owner] = {};  // another owner's, at the same address
  }

  /// What the index says, and what looking at all blocks does.
  void check(std::size_t owner, Kind kind, std::size_t bytes) const {
    const Extent found = index_.at_least(kind, holes_[owner], bytes);
    std::vector<Extent> all = holes(owner, kind);
    std::erase_if(all, [&](const Extent& hole) { return hole.bytes < bytes; });
    REQUIRE((found.source == nullptr) == all.empty());
    if (all.empty()) return;
    const auto least = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
    });
    REQUIRE(found.source == least->source);
    REQUIRE(found.address == least->address);
    REQUIRE(found.bytes == least->bytes);
  }
  void check_whole() const {
    for (std::size_t slot = 0; slot < blocks_.size(); ++slot) {
      if (blocks_[slot]) REQUIRE(index_.contains(holes_[owners_[slot]], *blocks_[slot]));
    }
    for (std::size_t owner = 0; owner < holes_.size(); ++owner) {
      std::size_t granules = 0;
      for (const Extent& range : holes(owner, Kind::range)) granules += range.bytes / kGranule;
      REQUIRE(holes_[owner].whole_granules == granules);
    }
  }

 private:
  static std::pair<std::uintptr_t, std::size_t> some_range(std::size_t slot, std::mt19937& random) {
    const std::size_t units = kSlotBytes / kHoleUnit;
    // Often from the beginning of a granule to the end of one.
    const std::size_t begin = random() % 4 == 0 ? 0 : random() % (units - 1);
    const std::size_t end = random() % 4 == 0 ? units : begin + 1 + random() % (units - begin);
    return {kBegin + slot * kSlotBytes + begin * kHoleUnit, (end - begin) * kHoleUnit};
  }
  [[nodiscard]] std::vector<Extent> holes(std::size_t owner, Kind kind) const {
    std::vector<Extent> found;
    for (std::size_t slot = 0; slot < blocks_.size(); ++slot) {
      if (!blocks_[slot] || owners_[slot] != owner) continue;
      Block* const block = const_cast<Block*>(&*blocks_[slot]);
      const std::uintptr_t first = (block->address + kGranule - 1) / kGranule * kGranule;
      const std::uintptr_t last = block->end() / kGranule * kGranule;
      Extent hole{block, 0, 0};
      if (kind == Kind::tail && first <= block->end())
        hole = {block, block->address, first - block->address};
      if (kind == Kind::head && last >= block->address) hole = {block, last, block->end() - last};
      if (kind == Kind::range && first < last) hole = {block, first, last - first};
      if (hole.bytes > 0) found.push_back(hole);
    }
    return found;
  }

  GranuleIndex index_;
  std::array<GranuleIndex::Holes, 2> holes_;
  std::vector<std::optional<Block>> blocks_;
  std::vector<std::size_t> owners_;
};

}  // namespace

TEST_CASE("a search sees every change of the holes, however many there were since the last one") {
  std::mt19937 random(1);
  for (const std::size_t slots : {std::size_t{3}, std::size_t{40}, std::size_t{2000}}) {
    IndexedBlocks blocks(slots);
    for (int round = 0; round < 60; ++round) {
      const std::size_t changes = random() % (4 * slots);
      for (std::size_t change = 0; change < changes; ++change)
        blocks.change(random() % slots, random);
      if (round % 7 == 6) blocks.clear(random() % 2);
      for (const std::size_t owner : {0, 1}) {
        for (const Kind kind : {Kind::tail, Kind::range, Kind::head})
          blocks.check(owner, kind, 1 + random() % (2 * kGranule));
      }
      blocks.check_whole();
    }
  }
}

}  // namespace berth::test
