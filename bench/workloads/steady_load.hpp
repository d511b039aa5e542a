// SPDX-License-Identifier: Apache-2.0
// A device half full of blocks of random sizes, of which random ones are replaced by new ones. The
// sequence is the same for each allocator, on each machine.
#pragma once

#include <cstddef>

#include "berth/bytes.hpp"
#include "berth/stream.hpp"

#include "workloads/live_blocks.hpp"
#include "workloads/random_sizes.hpp"

namespace berth::bench {

inline constexpr SizeRange kUniformSmall{"uniform_512B_4MiB", 512, 4_MiB, false};
inline constexpr SizeRange kLogSmall{"log_512B_256MiB", 512, 256_MiB, true};
inline constexpr SizeRange kLogLarge{"log_2MiB_2GiB", 2_MiB, 2_GiB, true};

inline constexpr std::size_t kSteadyBytes = 40_GiB;
inline constexpr std::size_t kSteadyAllocations = 10'000;

/// Fills up to kSteadyBytes; then, before each of kSteadyAllocations, frees random blocks until the
/// new one fits below that. Frees all blocks at the end.
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
