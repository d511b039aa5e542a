// SPDX-License-Identifier: Apache-2.0
// Random choices that a seed repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace berth::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// 0 to bound - 1.
  [[nodiscard]] std::size_t below(std::size_t bound) { return engine_() % bound; }
  [[nodiscard]] bool one_in(std::size_t chances) { return below(chances) == 0; }
  /// 1 to `most`, each power of two as likely as the next.
  [[nodiscard]] std::size_t size_up_to(std::size_t most) {
    std::size_t power = 0;
    while (most >> (power + 1) != 0) ++power;
    const std::size_t bound = std::size_t{2} << below(power + 1);
    return 1 + below(bound < most ? bound : most);
  }
  [[nodiscard]] unsigned char byte() { return static_cast<unsigned char>(below(256)); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace berth::test
