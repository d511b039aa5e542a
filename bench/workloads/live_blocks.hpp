// SPDX-License-Identifier: Apache-2.0
// The live blocks of a workload that selects the blocks to free.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "berth/stream.hpp"

#include "workloads/block.hpp"

namespace berth::bench {

template <class Allocator>
class LiveBlocks {
 public:
  LiveBlocks(Allocator& allocator, StreamRef stream) : allocator_(allocator), stream_(stream) {}
  ~LiveBlocks() { deallocate_all(allocator_, blocks_, stream_); }
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;

  void add(std::size_t bytes) {
    Block block;
    allocate(allocator_, block, bytes, stream_);
    blocks_.push_back(block);
    bytes_ += bytes;
  }
  /// The last block takes its place.
  void free(std::size_t index) {
    std::swap(blocks_[index], blocks_.back());
    bytes_ -= blocks_.back().bytes;
    deallocate(allocator_, blocks_.back(), stream_);
    blocks_.pop_back();
  }
  /// The remaining blocks keep their order.
  void free_every_other() {
    std::vector<Block> kept;
    for (std::size_t index = 0; index < blocks_.size(); index += 2) kept.push_back(blocks_[index]);
    for (std::size_t index = 1; index < blocks_.size(); index += 2) {
      bytes_ -= blocks_[index].bytes;
      deallocate(allocator_, blocks_[index], stream_);
    }
    blocks_ = std::move(kept);
  }

  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Allocator& allocator_;
  StreamRef stream_;
  std::vector<Block> blocks_;
  std::size_t bytes_ = 0;
};

}  // namespace berth::bench
