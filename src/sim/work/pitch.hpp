// SPDX-License-Identifier: Apache-2.0
// Arithmetic of rows a pitch apart, on unchecked sizes from a caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace berth::sim {

/// CU_DEVICE_ATTRIBUTE_MAX_PITCH of the simulated devices.
inline constexpr std::size_t kPitchMax = 2147483647;

/// nullopt if the result overflows.
constexpr std::optional<std::uint64_t> multiply_add(std::uint64_t factor, std::uint64_t other,
                                                    std::uint64_t summand) {
  std::uint64_t product = 0;
  std::uint64_t sum = 0;
  if (__builtin_mul_overflow(factor, other, &product)) return std::nullopt;
  if (__builtin_add_overflow(product, summand, &sum)) return std::nullopt;
  return sum;
}

/// Whether `rows` rows of `width` bytes, neither of them 0, can be `pitch` apart: they do not
/// overlap, and their extent does not overflow. The pitch of a single row is ignored.
constexpr bool is_pitched(std::size_t width, std::size_t rows, std::size_t pitch) {
  if (rows == 1) return true;
  return pitch >= width && multiply_add(rows - 1, pitch, width).has_value();
}

}  // namespace berth::sim
