// SPDX-License-Identifier: Apache-2.0
// A workload's record of a block: the values that are needed to free it with any allocator.
#pragma once

#include <cstddef>
#include <utility>

#include "berth/stream.hpp"

namespace berth::bench {

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
};

template <class Allocator>
void allocate(Allocator& allocator, Block& block, std::size_t bytes, StreamRef stream) {
  block = {allocator.allocate(bytes, stream), bytes};
}

template <class Allocator>
void deallocate(Allocator& allocator, Block& block, StreamRef stream) {
  allocator.deallocate(std::exchange(block.data, nullptr), block.bytes, stream);
}

/// For destructors: frees the blocks that remain after a failure.
template <class Allocator, class Blocks>
void deallocate_all(Allocator& allocator, Blocks& blocks, StreamRef stream) {
  for (Block& block : blocks) {
    if (block.data != nullptr) deallocate(allocator, block, stream);
  }
}

}  // namespace berth::bench
