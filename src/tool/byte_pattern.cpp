// SPDX-License-Identifier: Apache-2.0
#include "tool/byte_pattern.hpp"

#include <algorithm>
#include <cstring>

namespace berth::tool {

// The generator is splitmix64. Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
    mixed ^= mixed >> 31;
    std::memcpy(&bytes[at], &mixed, std::min(sizeof mixed, bytes.size() - at));
  }
}

std::uint64_t bytes_different(std::span<const std::byte> got, std::span<const std::byte> expected) {
  if (std::memcmp(got.data(), expected.data(), got.size()) == 0) return 0;
  std::uint64_t different = 0;
  for (std::size_t at = 0; at < got.size(); ++at) different += got[at] != expected[at] ? 1 : 0;
  return different;
}

}  // namespace berth::tool
