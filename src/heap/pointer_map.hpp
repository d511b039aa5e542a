// SPDX-License-Identifier: Apache-2.0
// Maps the address of a block in use to the block, in constant time and separately from the memory:
// open addressing with linear probing, at most half full, a small table a quarter. Erasing moves
// later entries back instead of leaving tombstones, so lookups do not slow down over time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fibonacci_hash.hpp"
#include "heap/block_records.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to, but for find_unguarded().
class PointerMap {
 public:
  explicit PointerMap(const BlockRecords& records);

  /// `block` must not be in the map.
  void insert(Block& block) {
    reserve_one();
    put(block);
    ++count_;
  }
  /// Reserves memory so that the next insert() cannot fail.
  void reserve_one() {
    if (count_ == count_max_) [[unlikely]]
      grow();
  }
  /// The same for the next `count` calls.
  void reserve(std::size_t count) {
    while (count_max_ - count_ < count) grow();
  }
  /// `block` must be in the map.
  void erase(const Block& block);
  /// The block that starts at `address`, or null.
  [[nodiscard]] Block* find(std::uintptr_t address) const { return find_unguarded(address); }
  [[nodiscard]] std::size_t count() const { return count_; }

  /// The same without the lock, from any thread. If another thread changes the map meanwhile, it
  /// may miss a block that is there; it never finds one that is not.
  [[nodiscard]] Block* find_unguarded(std::uintptr_t address) const {
    const Table* const table = table_.load(std::memory_order_acquire);
    for (std::size_t slot = table->home(address);; slot = table->next(slot)) {
      const std::uint32_t number = table->slots[slot].load(std::memory_order_acquire);
      if (number == 0) return nullptr;
      Block& block = records_.at(number);
      if (block.address == address) return &block;
    }
  }

  /// A map that has grown keeps its former tables for threads that may still read them.
  [[nodiscard]] bool has_outgrown_tables() const { return !outgrown_.empty(); }
  void drop_outgrown_tables() { outgrown_.clear(); }

  [[nodiscard]] std::size_t bytes_committed() const;

 private:
  /// Up to this size, 256 KiB, the memory matters less than the shorter runs of entries: a warm
  /// pass of recorded traces takes 1.5 % fewer instructions.
  static constexpr int kSparseBits = 16;

  struct Table {
    explicit Table(int bits);
    [[nodiscard]] std::size_t home(std::uintptr_t address) const {
      return static_cast<std::size_t>(fibonacci_hash(address, bits));
    }
    [[nodiscard]] std::size_t next(std::size_t slot) const { return (slot + 1) & mask; }

    [[nodiscard]] std::size_t count_max() const {
      return (mask + 1) / (bits <= kSparseBits ? 4 : 2);
    }

    int bits;
    std::size_t mask;
    std::unique_ptr<std::atomic<std::uint32_t>[]> slots;  ///< BlockRecords' numbers; 0 where empty
  };

  void put(Block& block);
  void grow();

  const BlockRecords& records_;
  std::atomic<Table*> table_;
  std::unique_ptr<Table> owned_;  ///< the target of table_
  std::vector<std::unique_ptr<Table>> outgrown_;
  std::size_t count_ = 0;
  std::size_t count_max_;  ///< of this table
};

}  // namespace berth
