// SPDX-License-Identifier: Apache-2.0
// The live blocks of an allocator at one moment: what restore() makes live again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heap/block.hpp"
#include "heap/heap_extent.hpp"

namespace berth {

struct HeapCheckpoint {
  struct Live {
    std::uintptr_t address;
    std::size_t bytes;
    std::size_t bytes_requested;
    OwnerId owner;
    std::size_t first_extent;
    std::size_t extent_count;

    friend bool operator==(const Live&, const Live&) = default;
  };

  /// The memory of a block at home: its parts in order if it is stitched, otherwise the block.
  [[nodiscard]] std::span<const HeapExtent> extents_of(const Live& block) const {
    return std::span(extents).subspan(block.first_extent, block.extent_count);
  }

  std::vector<Live> blocks;  ///< by address
  std::vector<HeapExtent> extents;
};

}  // namespace berth
