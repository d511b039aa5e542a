// SPDX-License-Identifier: Apache-2.0
// The state of one allocator at one moment, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "berth/memory_counters.hpp"

struct CUstream_st;

namespace berth {

enum class BlockState : std::uint8_t {
  allocated,  ///< a caller has it
  pending,    ///< freed, but another stream's work may still use it
  free,       ///< ready for the next request
};

struct BlockInfo {
  std::uintptr_t address;
  std::size_t bytes;            ///< after rounding
  std::size_t bytes_requested;  ///< as asked; 0 where free
  BlockState state;
  /// The stream that the block is ordered on, null for the legacy default stream. None where any
  /// stream may use it at once: memory free for all, that of a destroyed stream, and pinned memory.
  std::optional<CUstream_st*> stream;
  /// Where the caller has it: the same as `address`, unless the allocation is stitched: joined from
  /// blocks that lie apart, by mapping their memory once more, side by side.
  std::uintptr_t data = 0;
  /// Of a stitched allocation not the first block: its bytes follow those of another one at `data`.
  /// Counters of blocks count such an allocation once.
  bool continues = false;
};

/// One contiguous range obtained from the driver, tiled by its blocks in address order.
struct SegmentInfo {
  std::uintptr_t address;
  std::size_t bytes;
  std::vector<BlockInfo> blocks;
  std::optional<int> numa_node = std::nullopt;  ///< of pinned memory: that it was bound to
  bool write_combined = false;                  ///< of pinned memory: PinnedKind
};

struct MemorySnapshot {
  std::string allocator;  ///< "cuda:0", "cuda:0/name" of a private pool, "pinned", or "cpu"
  MemoryCounters counters;
  std::vector<SegmentInfo> segments;         ///< in address order
  std::size_t largest_free_block_bytes = 0;  ///< fragmentation as a number
};

}  // namespace berth
