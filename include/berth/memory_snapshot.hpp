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

/// The state of a block.
enum class BlockState : std::uint8_t {
  allocated,  ///< in use by a caller
  pending,    ///< freed, but another stream's work may still use it
  free,       ///< ready for the next request
};

/// One block of an allocator.
struct BlockInfo {
  std::uintptr_t address;
  std::size_t bytes;            ///< after rounding
  std::size_t bytes_requested;  ///< as requested; 0 if free
  BlockState state;
  /// The stream that orders the block, null for the legacy default stream. nullopt if any stream
  /// may use it immediately: unowned memory, memory of a destroyed stream, and pinned memory.
  std::optional<CUstream_st*> stream;
  /// The caller's address. It equals `address`, unless the allocation is stitched: made of
  /// blocks in separate places by mapping their memory a second time, side by side.
  std::uintptr_t data = 0;
  /// true for every block of a stitched allocation but the first: its bytes follow the bytes of
  /// another block at `data`. Counters of blocks count such an allocation once.
  bool continues = false;
};

/// One contiguous range obtained from the driver, tiled by its blocks in address order.
struct SegmentInfo {
  std::uintptr_t address;
  std::size_t bytes;
  std::vector<BlockInfo> blocks;
  std::optional<int> numa_node = std::nullopt;  ///< of pinned memory: the node it was bound to
  bool write_combined = false;                  ///< of pinned memory: PinnedKind
};

/// The counters and all blocks of one allocator at one moment.
struct MemorySnapshot {
  std::string allocator;  ///< "cuda:0", "cuda:0/name" for a private pool, "pinned", or "cpu"
  MemoryCounters counters;
  std::vector<SegmentInfo> segments;         ///< in address order
  std::size_t largest_free_block_bytes = 0;  ///< a measure of fragmentation
};

}  // namespace berth
