// SPDX-License-Identifier: Apache-2.0
// From the address of a live block to the block, in constant time and out of band: open addressing
// with linear probing, at most half full, so that a miss ends after a few slots. Erasing moves
// later entries back instead of leaving tombstones, so lookups do not slow down with age.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class PointerMap {
 public:
  PointerMap();

  /// `block` must not be in the map.
  void insert(Block& block);
  /// `block` must be in the map.
  void erase(const Block& block);
  /// The block that starts at `address`; null where none does.
  [[nodiscard]] Block* find(std::uintptr_t address) const;
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  [[nodiscard]] std::size_t home(std::uintptr_t address) const;
  [[nodiscard]] std::size_t next(std::size_t slot) const {
    return (slot + 1) & (slots_.size() - 1);
  }
  void grow();

  std::vector<Block*> slots_;  ///< a power of two; null where empty
  std::size_t count_ = 0;
};

}  // namespace berth
