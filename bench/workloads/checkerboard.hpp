// SPDX-License-Identifier: Apache-2.0
// What tears memory apart: rounds of equal blocks, each round's twice as large as the last, of
// which none fits where an earlier one was freed.
#pragma once

#include <cstddef>

#include "berth/bytes.hpp"
#include "berth/stream.hpp"

#include "workloads/live_blocks.hpp"

namespace berth::bench {

inline constexpr std::size_t kBoardBytes = 32_GiB;
inline constexpr std::size_t kSquareBytesMin = 2_MiB;
inline constexpr std::size_t kSquareBytesMax = 1_GiB;

/// Each round fills up to kBoardBytes and frees every other block that is live, in the order of
/// their allocation, which leaves half. Frees all in the end.
template <class Allocator>
void run_checkerboard(Allocator& allocator, StreamRef stream) {
  LiveBlocks blocks(allocator, stream);
  for (std::size_t bytes = kSquareBytesMin; bytes <= kSquareBytesMax; bytes *= 2) {
    while (blocks.bytes() + bytes <= kBoardBytes) blocks.add(bytes);
    blocks.free_every_other();
  }
}

}  // namespace berth::bench
