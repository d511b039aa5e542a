// SPDX-License-Identifier: Apache-2.0
// A sorted vector of blocks by address, for small numbers of blocks. Capacity is reserved
// beforehand, so insertion and removal cannot fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "heap/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class BlocksByAddress {
 public:
  using Entry = std::pair<std::uintptr_t, Block*>;

  /// Reserves memory for `count` blocks in all.
  void reserve(std::size_t count) {
    if (count > entries_.capacity()) entries_.reserve(std::max(count, 2 * entries_.capacity()));
  }
  void insert(Block& block) noexcept {
    const auto place = lower_bound(block.address);
    BERTH_CHECK(entries_.size() < entries_.capacity());
    BERTH_CHECK(place == entries_.end() || block.end() <= place->first);
    entries_.emplace(place, block.address, &block);
    bytes_ += block.bytes;
  }
  void erase(const Block& block) noexcept {
    const auto place = lower_bound(block.address);
    BERTH_CHECK(place != entries_.end() && place->second == &block);
    entries_.erase(place);
    bytes_ -= block.bytes;
  }

  [[nodiscard]] Block* find(std::uintptr_t address) const {
    Block* const block = covering(address);
    return block != nullptr && block->address == address ? block : nullptr;
  }
  [[nodiscard]] Block* covering(std::uintptr_t address) const {
    const auto later = std::ranges::upper_bound(entries_, address, {}, &Entry::first);
    if (later == entries_.begin()) return nullptr;
    Block* const block = std::prev(later)->second;
    return address < block->end() ? block : nullptr;
  }

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// The sum over all blocks.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Block& back() const { return *entries_.back().second; }
  [[nodiscard]] std::size_t capacity() const { return entries_.capacity(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] std::size_t bytes_committed() const { return entries_.capacity() * sizeof(Entry); }

 private:
  std::vector<Entry>::iterator lower_bound(std::uintptr_t address) {
    return std::ranges::lower_bound(entries_, address, {}, &Entry::first);
  }

  std::vector<Entry> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace berth
