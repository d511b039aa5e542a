// SPDX-License-Identifier: Apache-2.0
#include "heap/free_index.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"
#include "base/fibonacci_hash.hpp"
#include "heap/treap.hpp"

namespace berth {
namespace {

bool before(const Block& a, std::size_t bytes, std::uintptr_t address) {
  return a.bytes != bytes ? a.bytes < bytes : a.address < address;
}

bool before(const Block& a, const Block& b) {
  return before(a, b.bytes, b.address);
}

struct BlocksBySize {
  using Handle = Block*;
  using Link = NearPointer<Block>;

  static Link& child(Block* tree, bool is_larger) {
    return is_larger ? tree->tree.larger : tree->tree.smaller;
  }
  static bool before(const Block* a, const Block* b) { return berth::before(*a, *b); }
  /// The position of the block's record, mixed.
  static std::uint32_t priority(const Block* block) {
    return static_cast<std::uint32_t>(fibonacci_hash(reinterpret_cast<std::uintptr_t>(block), 32));
  }
};

const Treap<BlocksBySize> treap{BlocksBySize{}};

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
    root = treap.insert(root, &block);
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
  root = treap.erase(root, &block);
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
  Block* fit = treap.first(bins_[bin], [&](const Block* block) { return block->bytes >= bytes; });
  if (fit == nullptr) {
    const std::size_t larger = next_filled(bin + 1);
    if (larger != kBins) fit = treap.first(bins_[larger]);
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
  Block* const best = treap.first(bins_[bin], [&](const Block* block) {
    return block->bytes != bytes ? block->bytes > bytes : block->address > address;
  });
  if (best != nullptr) return best;
  const std::size_t later = next_filled(bin + 1);
  return later == kBins ? nullptr : treap.first(bins_[later]);
}

Block* FreeIndex::last_before(std::size_t bytes, std::uintptr_t address) const {
  file_recent();
  const std::size_t bin = std::min(bin_of(bytes), kBins);
  Block* const best = treap.last(bin < kBins ? bins_[bin] : nullptr, [&](const Block* block) {
    return before(*block, bytes, address);
  });
  if (best != nullptr) return best;
  const std::size_t smaller = last_filled_before(bin);
  return smaller == kBins ? nullptr : treap.last(bins_[smaller]);
}

std::size_t FreeIndex::largest_bytes() const {
  file_recent();
  const std::size_t last = last_filled_before(kBins);
  return last == kBins ? 0 : treap.last(bins_[last])->bytes;
}

bool FreeIndex::contains(const Block& block) const {
  file_recent();
  return treap.first(bins_[bin_of(block.bytes)],
                     [&](const Block* other) { return !before(*other, block); }) == &block;
}

}  // namespace berth
