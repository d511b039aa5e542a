// SPDX-License-Identifier: Apache-2.0
// The starts of blocks in use in one segment: one bit for each unit at which a block may start, and
// above it one bit for each word that is not 0, up to a single word. Finding the block that covers
// an address takes one step for each level, for any number of blocks.
//
// A segment may span a device. The words lie in an address range that uses memory only where it is
// written to, at most one part in 4096 of the segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "heap/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class BlockStarts {
 public:
  /// Errors  std::bad_alloc: the address space is exhausted.
  BlockStarts(std::uintptr_t address, std::size_t bytes);
  ~BlockStarts();
  BlockStarts(const BlockStarts&) = delete;
  BlockStarts& operator=(const BlockStarts&) = delete;

  /// The set has no block that begins there.
  void insert(const Block& block) noexcept;
  /// The block is in the set.
  void erase(const Block& block) noexcept;
  /// The last start at or before `address`, which is in the segment.
  [[nodiscard]] std::optional<std::uintptr_t> last_up_to(std::uintptr_t address) const;

 private:
  static constexpr std::size_t kLevelsMax = 8;  ///< of 6 bits each

  [[nodiscard]] std::size_t unit_of(const Block& block) const;

  std::uintptr_t address_;
  std::size_t bytes_mapped_ = 0;
  std::size_t levels_ = 0;
  std::array<std::uint64_t*, kLevelsMax> words_{};  ///< by level, that of the units first
};

}  // namespace berth
