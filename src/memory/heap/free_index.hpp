// SPDX-License-Identifier: Apache-2.0
// The free blocks of one owner, by size: answers best fit.
//
// Blocks are binned by size, sixteen bins to each power of two, and a bitmap says which bins hold
// any: what a search costs does not depend on how many holes there are elsewhere. The few blocks
// of one bin are a treap, ordered by size, then address, whose links lie in the blocks' records; no
// operation calls the heap.
// Sources: TLSF (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time
// systems", ECRTS 2004) for the bins; Seidel and Aragon, "Randomized search trees", 1996.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "memory/heap/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class FreeIndex {
 public:
  FreeIndex() = default;
  FreeIndex(const FreeIndex&) = delete;  // blocks are linked into one
  FreeIndex& operator=(const FreeIndex&) = delete;

  void insert(Block& block);
  /// `block` must be in the index.
  void erase(Block& block);
  /// Gives a block that is in the index, and stays there, another place and size.
  void move(Block& block, std::uintptr_t address, std::size_t bytes);

  /// The smallest block of at least `bytes`; among equals the one at the lowest address, which
  /// keeps the top of an arena free to shrink. Null where none fits.
  [[nodiscard]] Block* best_fit(std::size_t bytes) const;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t largest_bytes() const;
  [[nodiscard]] bool contains(const Block& block) const;

  /// Calls visit(Block&) for each block, smallest first. The index must not change meanwhile.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (Block* const tree : bins_) for_each_in(tree, visit);
  }

  /// The same for blocks of at least `bytes`, and perhaps some a little smaller.
  template <class Visit>
  void for_each_from(std::size_t bytes, const Visit& visit) const {
    for (std::size_t bin = next_filled(bin_of(bytes)); bin < kBins; bin = next_filled(bin + 1)) {
      for_each_in(bins_[bin], visit);
    }
  }

 private:
  static constexpr std::size_t kBinsPerDoubling = 16;
  static constexpr std::size_t kBins = 37 * kBinsPerDoubling;  ///< up to 2^48 bytes
  static constexpr std::size_t kWords = (kBins + 63) / 64;

  static std::size_t bin_of(std::size_t bytes);
  void add(Block& block, std::size_t bin);
  void remove(const Block& block, std::size_t bin);
  /// The first bin from `bin` on that holds any; kBins where there is none.
  [[nodiscard]] std::size_t next_filled(std::size_t bin) const;

  template <class Visit>
  static void for_each_in(Block* tree, const Visit& visit) {
    if (tree == nullptr) return;
    for_each_in(tree->tree.smaller, visit);
    visit(*tree);
    for_each_in(tree->tree.larger, visit);
  }

  std::array<Block*, kBins> bins_{};            ///< roots
  std::array<std::uint64_t, kWords> filled_{};  ///< bins that hold any
  std::uint64_t filled_words_ = 0;              ///< words of `filled_` that are not 0
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace berth
