// SPDX-License-Identifier: Apache-2.0
// The free blocks of one owner, by size: answers best fit.
#pragma once

#include <cstddef>
#include <set>

#include "memory/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class FreeIndex {
 public:
  void insert(Block& block);
  void erase(Block& block);

  /// The smallest block of at least `bytes`; among equals the one at the lowest address, which
  /// keeps the top of an arena free to shrink. Null where none fits.
  [[nodiscard]] Block* best_fit(std::size_t bytes) const;

  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  [[nodiscard]] std::size_t count() const { return blocks_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t largest_bytes() const {
    return blocks_.empty() ? 0 : (*blocks_.rbegin())->bytes;
  }
  [[nodiscard]] bool contains(Block& block) const { return blocks_.count(&block) == 1; }

  /// By size, smallest first. Not to be changed while iterating.
  [[nodiscard]] auto begin() const { return blocks_.begin(); }
  [[nodiscard]] auto end() const { return blocks_.end(); }

 private:
  struct BySizeThenAddress {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
    bool operator()(const Block* a, std::size_t bytes) const { return a->bytes < bytes; }
  };

  std::set<Block*, BySizeThenAddress> blocks_;
  std::size_t bytes_ = 0;
};

}  // namespace berth
