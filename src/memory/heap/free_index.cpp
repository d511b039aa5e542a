// SPDX-License-Identifier: Apache-2.0
#include "memory/heap/free_index.hpp"

#include <bit>

#include "base/check.hpp"
#include "base/fibonacci_hash.hpp"

namespace berth {
namespace {

constexpr std::size_t kUnitBytes = 512;

bool before(const Block& a, const Block& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
}

/// Random enough to balance a tree, and needs no room: the place of the block's record, mixed.
std::uint32_t priority(const Block& block) {
  return static_cast<std::uint32_t>(fibonacci_hash(reinterpret_cast<std::uintptr_t>(&block), 32));
}

/// One tree of two, where all of `low` comes before all of `high`.
Block* merge(Block* low, Block* high) {
  if (low == nullptr) return high;
  if (high == nullptr) return low;
  if (priority(*low) > priority(*high)) {
    low->tree.larger = merge(low->tree.larger, high);
    return low;
  }
  high->tree.smaller = merge(low, high->tree.smaller);
  return high;
}

struct Halves {
  Block* low;   ///< what comes before the pivot
  Block* high;  ///< what comes after
};

Halves split(Block* tree, const Block& pivot) {
  if (tree == nullptr) return {nullptr, nullptr};
  if (before(*tree, pivot)) {
    const Halves rest = split(tree->tree.larger, pivot);
    tree->tree.larger = rest.low;
    return {tree, rest.high};
  }
  const Halves rest = split(tree->tree.smaller, pivot);
  tree->tree.smaller = rest.high;
  return {rest.low, tree};
}

Block* with(Block* tree, Block& block) {
  if (tree == nullptr || priority(block) > priority(*tree)) {
    const Halves halves = split(tree, block);
    block.tree.smaller = halves.low;
    block.tree.larger = halves.high;
    return &block;
  }
  BERTH_CHECK(tree != &block);
  if (before(block, *tree)) {
    tree->tree.smaller = with(tree->tree.smaller, block);
  } else {
    tree->tree.larger = with(tree->tree.larger, block);
  }
  return tree;
}

Block* without(Block* tree, const Block& block) {
  BERTH_CHECK(tree != nullptr);
  if (tree == &block) return merge(tree->tree.smaller, tree->tree.larger);
  if (before(block, *tree)) {
    tree->tree.smaller = without(tree->tree.smaller, block);
  } else {
    tree->tree.larger = without(tree->tree.larger, block);
  }
  return tree;
}

Block* first_of_at_least(Block* tree, std::size_t bytes) {
  Block* best = nullptr;
  while (tree != nullptr) {
    if (tree->bytes >= bytes) {
      best = tree;
      tree = tree->tree.smaller;
    } else {
      tree = tree->tree.larger;
    }
  }
  return best;
}

}  // namespace

std::size_t FreeIndex::bin_of(std::size_t bytes) {
  const std::size_t units = bytes / kUnitBytes;
  if (units < kBinsPerDoubling) return units;
  constexpr int kBits = std::countr_zero(kBinsPerDoubling);
  const int doubling = static_cast<int>(std::bit_width(units)) - 1 - kBits;
  const std::size_t part = (units >> doubling) % kBinsPerDoubling;
  return (static_cast<std::size_t>(doubling) + 1) * kBinsPerDoubling + part;
}

std::size_t FreeIndex::next_filled(std::size_t bin) const {
  std::size_t word = bin / 64;
  if (word >= kWords) return kBins;
  std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % 64));
  if (bits == 0) {
    const std::uint64_t later = filled_words_ & (~std::uint64_t{1} << word);
    if (later == 0) return kBins;
    word = static_cast<std::size_t>(std::countr_zero(later));
    bits = filled_[word];
  }
  return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
}

void FreeIndex::add(Block& block, std::size_t bin) {
  bins_[bin] = with(bins_[bin], block);
  filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  filled_words_ |= std::uint64_t{1} << (bin / 64);
}

void FreeIndex::remove(const Block& block, std::size_t bin) {
  bins_[bin] = without(bins_[bin], block);
  if (bins_[bin] != nullptr) return;
  filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (filled_[bin / 64] == 0) filled_words_ &= ~(std::uint64_t{1} << (bin / 64));
}

void FreeIndex::insert(Block& block) {
  BERTH_CHECK(block.state() == Block::State::free);
  add(block, bin_of(block.bytes));
  ++count_;
  bytes_ += block.bytes;
}

void FreeIndex::erase(Block& block) {
  remove(block, bin_of(block.bytes));
  --count_;
  bytes_ -= block.bytes;
}

void FreeIndex::move(Block& block, std::uintptr_t address, std::size_t bytes) {
  const std::size_t from = bin_of(block.bytes);
  const std::size_t to = bin_of(bytes);
  const bool is_alone =
      bins_[from] == &block && block.tree.smaller == nullptr && block.tree.larger == nullptr;
  const bool stays = from == to && is_alone;
  if (!stays) remove(block, from);
  bytes_ += bytes - block.bytes;
  block.address = address;
  block.bytes = bytes;
  if (!stays) add(block, to);
}

Block* FreeIndex::best_fit(std::size_t bytes) const {
  const std::size_t bin = bin_of(bytes);
  if (count_ == 0 || bin >= kBins) return nullptr;
  if (Block* const fit = first_of_at_least(bins_[bin], bytes)) return fit;
  const std::size_t larger = next_filled(bin + 1);
  return larger == kBins ? nullptr : first_of_at_least(bins_[larger], bytes);
}

std::size_t FreeIndex::largest_bytes() const {
  std::size_t largest = 0;
  for (std::size_t word = kWords; word-- > 0 && largest == 0;) {
    if (filled_[word] == 0) continue;
    const Block* tree =
        bins_[word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(filled_[word]))];
    for (; tree != nullptr; tree = tree->tree.larger) largest = tree->bytes;
  }
  return largest;
}

bool FreeIndex::contains(const Block& block) const {
  const Block* tree = bins_[bin_of(block.bytes)];
  while (tree != nullptr && tree != &block) {
    tree = before(block, *tree) ? tree->tree.smaller : tree->tree.larger;
  }
  return tree != nullptr;
}

}  // namespace berth
