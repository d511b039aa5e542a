// SPDX-License-Identifier: Apache-2.0
#include "support/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace berth::test {

std::vector<unsigned char> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<unsigned char> content(bytes);
  std::uint64_t state = seed * 0xD1342543DE82EF95ULL;
  for (std::size_t at = 0; at < bytes; at += sizeof state) {
    // splitmix64
    state += 0x9E3779B97F4A7C15ULL;
    std::uint64_t word = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    word ^= word >> 31;
    std::memcpy(content.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return content;
}

}  // namespace berth::test
