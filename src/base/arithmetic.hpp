// SPDX-License-Identifier: Apache-2.0
// Alignment arithmetic. Alignments are powers of two.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"

namespace berth {

/// Requires that the result does not overflow: bound `value` first.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  BERTH_DCHECK(std::has_single_bit(alignment));
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  BERTH_DCHECK(std::has_single_bit(alignment));
  return value & ~(alignment - 1);
}

constexpr bool is_aligned(std::uint64_t value, std::uint64_t alignment) {
  return align_down(value, alignment) == value;
}

}  // namespace berth
