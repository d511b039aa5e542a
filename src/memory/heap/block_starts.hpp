// SPDX-License-Identifier: Apache-2.0
// Where blocks in use begin in one segment: a bit for each unit that a block may begin at, and above
// it a bit for each word that is not 0, up to a single word. Which block covers an address takes a step
// a level, however many blocks there are.
//
// A segment may span a device: the words lie in address space that costs memory only where it is
// written to, one part in 4096 of the segment at most.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/heap/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class BlockStarts {
 public:
  /// Errors  std::bad_alloc: no address space left.
  BlockStarts(std::uintptr_t address, std::size_t bytes);
  ~BlockStarts();
  BlockStarts(const BlockStarts&) = delete;
  BlockStarts& operator=(const BlockStarts&) = delete;

  /// No other block begins there.
  void insert(const Block& block) noexcept;
  /// One does.
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
