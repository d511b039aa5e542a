// SPDX-License-Identifier: Apache-2.0
#include "heap/free_index.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "base/fibonacci_hash.hpp"

namespace berth {
namespace {

bool before(const Block& a, std::size_t bytes, std::uintptr_t address) {
  return a.bytes != bytes ? a.bytes < bytes : a.address < address;
}

bool before(const Block& a, const Block& b) {
  return before(a, b.bytes, b.address);
}

/// A priority that is random enough to balance a tree and needs no storage: the mixed position of
/// the block's record.
std::uint32_t priority(const Block& block) {
  return static_cast<std::uint32_t>(fibonacci_hash(reinterpret_cast<std::uintptr_t>(&block), 32));
}

NearPointer<Block>& child(Block& tree, bool is_larger) {
  return is_larger ? tree.tree.larger : tree.tree.smaller;
}

/// Merges the two trees below a block into one, which replaces the block.
Block* merge_below(const Block& block) {
  Block* low = block.tree.smaller;
  Block* high = block.tree.larger;
  if (low == nullptr) return high;
  if (high == nullptr) return low;
  Block* root = nullptr;
  NearPointer<Block>* link = nullptr;
  while (low != nullptr && high != nullptr) {
    const bool is_low = priority(*low) > priority(*high);
    Block*& top = is_low ? low : high;
    if (link == nullptr) {
      root = top;
    } else {
      *link = top;
    }
    link = &child(*top, is_low);
    top = *link;
  }
  *link = low != nullptr ? low : high;
  return root;
}

/// Splits `tree` into the two trees below `block`.
void split_below(Block& block, Block* tree) {
  NearPointer<Block>* low = &block.tree.smaller;
  NearPointer<Block>* high = &block.tree.larger;
  while (tree != nullptr) {
    const bool is_low = before(*tree, block);
    NearPointer<Block>*& link = is_low ? low : high;
    *link = tree;
    link = &child(*tree, is_low);
    tree = *link;
  }
  *low = nullptr;
  *high = nullptr;
}

Block* with(Block* root, Block& block) {
  const std::uint32_t rank = priority(block);
  NearPointer<Block>* link = nullptr;
  Block* tree = root;
  while (tree != nullptr && rank <= priority(*tree)) {
    BERTH_CHECK(tree != &block);
    link = &child(*tree, before(*tree, block));
    tree = *link;
  }
  split_below(block, tree);
  if (link == nullptr) return &block;
  *link = &block;
  return root;
}

Block* without(Block* root, const Block& block) {
  if (root == &block) return merge_below(block);
  NearPointer<Block>* link = nullptr;
  for (Block* tree = root; tree != &block; tree = *link) {
    BERTH_CHECK(tree != nullptr);
    link = &child(*tree, before(*tree, block));
  }
  *link = merge_below(block);
  return root;
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

Block* smallest(Block* tree) {
  while (tree->tree.smaller != nullptr) tree = tree->tree.smaller;
  return tree;
}

Block* largest(Block* tree) {
  while (tree->tree.larger != nullptr) tree = tree->tree.larger;
  return tree;
}

}  // namespace

std::size_t FreeIndex::last_filled_before(std::size_t bin) const {
  std::size_t word = bin / 64;
  std::uint64_t bits = word < kWords ? filled_[word] & ~(~std::uint64_t{0} << (bin % 64)) : 0;
  if (bits == 0) {
    const std::uint64_t earlier = filled_words_ & ~(~std::uint64_t{0} << word);
    if (earlier == 0) return kBins;
    word = 63 - static_cast<std::size_t>(std::countl_zero(earlier));
    bits = filled_[word];
  }
  return word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(bits));
}

void FreeIndex::file(Block& block) const {
  const std::size_t bin = bin_of(block.bytes);
  BERTH_CHECK(bin < kBins);
  if (granule_index_ != nullptr) granule_index_->add(holes_, block);
  Block*& root = bins_[bin];
  if (root != nullptr) {
    root = with(root, block);
    return;
  }
  root = &block;
  block.tree.smaller = nullptr;
  block.tree.larger = nullptr;
  filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  filled_words_ |= std::uint64_t{1} << (bin / 64);
}

void FreeIndex::unfile(Block& block) {
  const std::size_t bin = bin_of(block.bytes);
  Block*& root = bins_[bin];
  root = without(root, block);
  if (granule_index_ != nullptr) granule_index_->remove(holes_, block);
  if (root != nullptr) return;
  filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (filled_[bin / 64] == 0) filled_words_ &= ~(std::uint64_t{1} << (bin / 64));
}

void FreeIndex::add_recent(Block& block) {
  block.is_recent = true;
  block.recent.older = newest_;
  block.recent.newer = nullptr;
  if (newest_ != nullptr) {
    newest_->recent.newer = &block;
  } else {
    oldest_ = &block;
  }
  newest_ = &block;
  ++recent_count_;
  file_recent_but(kRecentMax);
}

void FreeIndex::remove_recent(Block& block) const {
  Block* const older = block.recent.older;
  Block* const newer = block.recent.newer;
  if (newer != nullptr) {
    newer->recent.older = older;
  } else {
    newest_ = older;
  }
  if (older != nullptr) {
    older->recent.newer = newer;
  } else {
    oldest_ = newer;
  }
  block.is_recent = false;
  --recent_count_;
}

void FreeIndex::insert(Block& block) {
  BERTH_CHECK(block.state() == Block::State::free && !block.is_recent);
  add_recent(block);
  ++count_;
  bytes_ += block.bytes;
}

void FreeIndex::erase(Block& block) {
  BERTH_CHECK(block.state() == Block::State::free);
  if (block.is_recent) {
    remove_recent(block);
  } else {
    unfile(block);
  }
  --count_;
  bytes_ -= block.bytes;
}

void FreeIndex::move(Block& block, std::uintptr_t address, std::size_t bytes) {
  BERTH_CHECK(block.state() == Block::State::free);
  if (!block.is_recent) {
    unfile(block);
    add_recent(block);
  }
  bytes_ += bytes - block.bytes;
  block.address = address;
  block.bytes = bytes;
}

Block* FreeIndex::best_fit(std::size_t bytes) const {
  if (count_ == 0) return nullptr;
  const std::size_t bin = bin_of(bytes);
  if (bin >= kBins) return nullptr;
  file_recent_but(kRecent);
  Block* fit = first_of_at_least(bins_[bin], bytes);
  if (fit == nullptr) {
    const std::size_t larger = next_filled(bin + 1);
    if (larger != kBins) fit = smallest(bins_[larger]);
  }
  for (Block* recent = newest_; recent != nullptr; recent = recent->recent.older) {
    if (recent->bytes < bytes) continue;
    if (fit == nullptr || before(*recent, *fit)) fit = recent;
  }
  return fit;
}

Block* FreeIndex::next_after(std::size_t bytes, std::uintptr_t address) const {
  file_recent();
  const std::size_t bin = bin_of(bytes);
  if (bin >= kBins) return nullptr;
  Block* best = nullptr;
  for (Block* tree = bins_[bin]; tree != nullptr;) {
    const bool is_later =
        !before(*tree, bytes, address) && (tree->bytes != bytes || tree->address != address);
    if (is_later) best = tree;
    tree = is_later ? tree->tree.smaller : tree->tree.larger;
  }
  if (best != nullptr) return best;
  const std::size_t later = next_filled(bin + 1);
  return later == kBins ? nullptr : smallest(bins_[later]);
}

Block* FreeIndex::last_before(std::size_t bytes, std::uintptr_t address) const {
  file_recent();
  const std::size_t bin = std::min(bin_of(bytes), kBins);
  Block* best = nullptr;
  for (Block* tree = bin < kBins ? bins_[bin] : nullptr; tree != nullptr;) {
    const bool is_earlier = before(*tree, bytes, address);
    if (is_earlier) best = tree;
    tree = is_earlier ? tree->tree.larger : tree->tree.smaller;
  }
  if (best != nullptr) return best;
  const std::size_t smaller = last_filled_before(bin);
  return smaller == kBins ? nullptr : largest(bins_[smaller]);
}

std::size_t FreeIndex::largest_bytes() const {
  file_recent();
  const std::size_t last = last_filled_before(kBins);
  return last == kBins ? 0 : largest(bins_[last])->bytes;
}

bool FreeIndex::contains(const Block& block) const {
  file_recent();
  const Block* tree = bins_[bin_of(block.bytes)];
  while (tree != nullptr && tree != &block) {
    tree = before(block, *tree) ? tree->tree.smaller : tree->tree.larger;
  }
  return tree != nullptr;
}

}  // namespace berth
