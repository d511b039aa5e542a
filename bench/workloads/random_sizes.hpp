// SPDX-License-Identifier: Apache-2.0
// Random sizes, the same sequence on each machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

namespace berth::bench {

struct SizeRange {
  const char* name;
  std::size_t bytes_min;
  std::size_t bytes_max;
  bool log_uniform;  ///< each power of two as frequent as the next, or each size
};

class RandomSizes {
 public:
  explicit RandomSizes(const SizeRange& range) : range_(range) {}

  /// Not the distributions of <random>, whose results the standard does not define.
  std::size_t next() {
    const double uniform = std::ldexp(static_cast<double>(random_() >> 11), -53);
    const auto min = static_cast<double>(range_.bytes_min);
    const auto max = static_cast<double>(range_.bytes_max);
    return static_cast<std::size_t>(range_.log_uniform
                                        ? min * std::exp2(uniform * std::log2(max / min))
                                        : min + uniform * (max - min));
  }
  std::size_t below(std::size_t bound) { return random_() % bound; }

 private:
  static constexpr std::uint64_t kSeed = 20;
  SizeRange range_;
  std::mt19937_64 random_{kSeed};
};

}  // namespace berth::bench
