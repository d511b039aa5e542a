// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace berth {

/// `bits` bits, from 1 to 64, that depend on every bit of `value` below them: a number that is
/// even, or a small multiple of a large power of two, is spread like any other. One multiplication.
/// Source: Knuth, TAOCP volume 3, section 6.4.
constexpr std::uint64_t fibonacci_hash(std::uint64_t value, int bits) {
  constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15u;  // 2^64 / 1.618...
  return (value * golden_ratio) >> (64 - bits);
}

}  // namespace berth
