// SPDX-License-Identifier: Apache-2.0
// A hash of integers whose collisions cannot be computed in advance. For tables whose keys come
// from a file: with std::hash, which is the identity, a file could choose keys that share one
// bucket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sys/auxv.h>

namespace berth {

/// Threads  Safe from any thread.
class SecretHash {
 public:
  /// A permutation of the 64-bit numbers, determined by the secret alone.
  std::size_t operator()(std::uint64_t key) const noexcept {
    key = (key ^ secret()[0]) * (secret()[1] | 1);
    key = (key ^ key >> 32) * (secret()[0] | 1);
    return static_cast<std::size_t>(key ^ key >> 29);
  }
  std::size_t operator()(std::int64_t key) const noexcept {
    return (*this)(static_cast<std::uint64_t>(key));
  }

 private:
  /// The 16 random bytes that the kernel gives each process.
  static const std::array<std::uint64_t, 2>& secret() noexcept {
    static const std::array<std::uint64_t, 2> words = [] {
      std::array<std::uint64_t, 2> random{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9};
      const unsigned long address = getauxval(AT_RANDOM);
      if (address != 0)
        std::memcpy(random.data(), reinterpret_cast<const void*>(address), sizeof(random));
      return random;
    }();
    return words;
  }
};

}  // namespace berth
