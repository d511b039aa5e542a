// SPDX-License-Identifier: Apache-2.0
// A device half full of blocks of random sizes, of which random ones make place for new ones. The
// sequence is the same for each allocator, on each machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "berth/bytes.hpp"
#include "berth/stream.hpp"

#include "workloads/live_blocks.hpp"

namespace berth::bench {

struct SizeRange {
  const char* name;
  std::size_t bytes_min;
  std::size_t bytes_max;
  bool log_uniform;  ///< each power of two as frequent as the next, or each size
};

inline constexpr SizeRange kUniformSmall{"uniform_512B_4MiB", 512, 4_MiB, false};
inline constexpr SizeRange kLogSmall{"log_512B_256MiB", 512, 256_MiB, true};
inline constexpr SizeRange kLogLarge{"log_2MiB_2GiB", 2_MiB, 2_GiB, true};

inline constexpr std::size_t kSteadyBytes = 40_GiB;
inline constexpr std::size_t kSteadyAllocations = 10'000;

class RandomSizes {
 public:
  explicit RandomSizes(const SizeRange& range) : range_(range) {}

  /// Not <random>'s distributions: the standard leaves open what they return.
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
  const SizeRange& range_;
  std::mt19937_64 random_{kSeed};
};

/// Fills up to kSteadyBytes; then, before each of kSteadyAllocations, frees random blocks until the
/// new one has place below that. Frees all in the end.
template <class Allocator>
void run_steady_load(Allocator& allocator, const SizeRange& range, StreamRef stream) {
  RandomSizes random(range);
  LiveBlocks blocks(allocator, stream);
  for (std::size_t steady_allocations = 0; steady_allocations < kSteadyAllocations;) {
    const std::size_t bytes = random.next();
    const bool is_full = blocks.bytes() + bytes > kSteadyBytes;
    while (blocks.bytes() + bytes > kSteadyBytes) blocks.free(random.below(blocks.size()));
    blocks.add(bytes);
    if (is_full || steady_allocations > 0) ++steady_allocations;
  }
}

}  // namespace berth::bench
