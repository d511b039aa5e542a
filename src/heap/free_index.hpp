// SPDX-License-Identifier: Apache-2.0
// The free blocks of one owner, indexed by size, for best fit.
//
// Blocks are binned by size, sixteen bins to each power of two, and a bitmap shows which bins are
// not empty, so the cost of a search does not depend on the number of other holes. The few blocks
// of one bin form a treap, ordered by size, then address, whose links are stored in the blocks'
// records (Treap). No operation calls the heap. Source of the bins: Masmano, Ripoll, Crespo, Real:
// "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004.
//
// A free block that has just changed usually changes again soon: the next request takes another
// piece of it, or a free extends it. So a block that changes is only put on a list. It is filed, in
// its bin and in the GranuleIndex, at the next search, or when all blocks are needed in order. A
// search leaves the most recent blocks on the list, and compares them one by one. So when a
// thread's cache is returned, a hole that many of its blocks coalesce into is filed once.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "berth/allocator.hpp"

#include "heap/block.hpp"
#include "heap/granule_index.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class FreeIndex {
 public:
  FreeIndex() = default;
  FreeIndex(const FreeIndex&) = delete;  // blocks are linked into it
  FreeIndex& operator=(const FreeIndex&) = delete;

  /// Indexes the holes of its blocks in `holes` from now on. Called while the index is empty.
  void index_holes(GranuleIndex& holes) { granule_index_ = &holes; }
  /// Files all blocks. They stay filed until the index changes.
  void file_recent() const { file_recent_but(0); }
  /// The holes of its blocks in the GranuleIndex, complete until the index changes.
  [[nodiscard]] const GranuleIndex::Holes& holes() const {
    file_recent();
    return holes_;
  }

  void insert(Block& block);
  /// `block` must be in the index.
  void erase(Block& block);
  /// Changes the address and size of a block in the index.
  void move(Block& block, std::uintptr_t address, std::size_t bytes);

  /// The smallest block of at least `bytes`; among equals the one at the lowest address, which
  /// keeps the top of an arena free to shrink. Null if none fits.
  [[nodiscard]] Block* best_fit(std::size_t bytes) const;
  /// The next block after `bytes` at `address`, in the order of size, then address; null if there
  /// is none. The index may change between two calls.
  [[nodiscard]] Block* next_after(std::size_t bytes, std::uintptr_t address) const;
  /// The same backwards.
  [[nodiscard]] Block* last_before(std::size_t bytes, std::uintptr_t address) const;

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t largest_bytes() const;
  [[nodiscard]] bool contains(const Block& block) const;

  /// Calls visit(Block&) for each block, smallest first. The index must not change meanwhile.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (Block* block = next_after(0, 0); block != nullptr;
         block = next_after(block->bytes, block->address))
      visit(*block);
  }

 private:
  /// Measured on recorded traces: 2 cost 1 to 5 % more instructions, 3 up to 2.7 %.
  static constexpr std::size_t kRecent = 4;  ///< left on the list by a search
  /// So that a search after many frees takes no longer than some microseconds.
  static constexpr std::size_t kRecentMax = 256;
  static constexpr std::size_t kBinsPerDoubling = 16;
  static constexpr std::size_t kBins = 37 * kBinsPerDoubling;  ///< up to 2^48 bytes
  static constexpr std::size_t kWords = (kBins + 63) / 64;
  static_assert(kWords <= 64);

  static std::size_t bin_of(std::size_t bytes) {
    const std::size_t units = bytes >> std::countr_zero(kBlockAlignment);
    if (units < kBinsPerDoubling) return units;
    constexpr int kBits = std::countr_zero(kBinsPerDoubling);
    const int doubling = static_cast<int>(std::bit_width(units)) - 1 - kBits;
    // The leading bit of the remainder counts as one doubling.
    return (static_cast<std::size_t>(doubling) << kBits) + (units >> doubling);
  }
  /// Insertion into its bin and the GranuleIndex, and removal.
  void file(Block& block) const;
  void unfile(Block& block);
  // The list of changed blocks.

  /// Files the oldest one beyond kRecentMax.
  void add_recent(Block& block);
  void remove_recent(Block& block) const;
  /// Files the oldest blocks of the list until only `count` are left.
  void file_recent_but(std::size_t count) const {
    while (recent_count_ > count) {
      Block& oldest = *oldest_;
      remove_recent(oldest);
      file(oldest);
    }
  }
  /// The first bin from `bin` on that is not empty, or kBins.
  [[nodiscard]] std::size_t next_filled(std::size_t bin) const {
    const std::size_t word = bin / 64;
    if (word >= kWords) return kBins;
    const std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % 64));
    if (bits != 0) return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    const std::uint64_t later = filled_words_ & (~std::uint64_t{1} << word);
    if (later == 0) return kBins;
    const auto found = static_cast<std::size_t>(std::countr_zero(later));
    return found * 64 + static_cast<std::size_t>(std::countr_zero(filled_[found]));
  }
  /// The last bin before `bin` that is not empty, or kBins.
  [[nodiscard]] std::size_t last_filled_before(std::size_t bin) const;

  // Mutable because a search may file blocks, which does not change the set of blocks.
  mutable Block* newest_ = nullptr;  ///< of the list of changed blocks
  mutable Block* oldest_ = nullptr;
  mutable std::size_t recent_count_ = 0;
  mutable std::array<Block*, kBins> bins_{};            ///< roots
  mutable std::array<std::uint64_t, kWords> filled_{};  ///< bins that are not empty
  mutable std::uint64_t filled_words_ = 0;              ///< words of `filled_` that are not 0
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  GranuleIndex* granule_index_ = nullptr;  ///< null without granules
  mutable GranuleIndex::Holes holes_;
};

}  // namespace berth
