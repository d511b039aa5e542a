// SPDX-License-Identifier: Apache-2.0
// A workload that fragments memory: rounds of equal blocks, each round's twice as large as the
// last, so that no block fits in the hole of an earlier one.
#pragma once

#include <cstddef>

#include "berth/bytes.hpp"
#include "berth/stream.hpp"

#include "workloads/live_blocks.hpp"

namespace berth::bench {

inline constexpr std::size_t kBoardBytes = 32_GiB;
inline constexpr std::size_t kSquareBytesMin = 2_MiB;
inline constexpr std::size_t kSquareBytesMax = 1_GiB;

/// Each round fills up to kBoardBytes and frees every other live block, in the order of allocation.
/// Frees all blocks at the end.
template <class Allocator>
void run_checkerboard(Allocator& allocator, StreamRef stream) {
  LiveBlocks blocks(allocator, stream);
  for (std::size_t bytes = kSquareBytesMin; bytes <= kSquareBytesMax; bytes *= 2) {
    while (blocks.bytes() + bytes <= kBoardBytes) blocks.add(bytes);
    blocks.free_every_other();
  }
}

}  // namespace berth::bench
