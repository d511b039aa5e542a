// SPDX-License-Identifier: Apache-2.0
// A heap with many holes: blocks of pseudo-random sizes, of which every other one is freed. A pair
// of allocation and free is timed, of a size that changes with each step, because one size would
// always be served by the same hole, which is in the processor's cache.
#pragma once

#include <cstddef>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/stream.hpp"

#include "workloads/block.hpp"
#include "workloads/random_sizes.hpp"

namespace berth::bench {

struct HolesPlan {
  std::vector<std::size_t> bytes_of_block;  ///< the odd ones become holes
  std::vector<std::size_t> bytes_of_pair;   ///< used cyclically

  explicit HolesPlan(std::size_t holes, std::size_t pair_sizes = kPairSizes) {
    RandomSizes bytes(kSizes);
    for (std::size_t block = 0; block < 2 * holes; ++block) bytes_of_block.push_back(bytes.next());
    for (std::size_t size = 0; size < pair_sizes; ++size) bytes_of_pair.push_back(bytes.next());
  }

 private:
  static constexpr SizeRange kSizes{"log_512B_64KiB", 512, 64_KiB, true};
  static constexpr std::size_t kPairSizes = 1024;
};

/// One step is a pair.
template <class Allocator>
class Holes {
 public:
  Holes(Allocator& allocator, const HolesPlan& plan, StreamRef stream)
      : Holes(stream, allocator, plan) {  // so that a failure here frees the blocks
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      allocate(allocator_, blocks_[block], plan.bytes_of_block[block], stream_);
    }
    // From the last to the first, because an allocator with a list in the order of addresses would
    // otherwise walk the whole list for each block, which is not the subject of the measurement.
    for (std::size_t pair = blocks_.size() / 2; pair-- > 0;) {
      deallocate(allocator_, blocks_[2 * pair + 1], stream_);
    }
    for (std::size_t warmed = 0; warmed < plan.bytes_of_pair.size(); ++warmed) step();
  }
  ~Holes() { deallocate_all(allocator_, blocks_, stream_); }
  Holes(const Holes&) = delete;
  Holes& operator=(const Holes&) = delete;

  void step() {
    const std::size_t bytes = plan_.bytes_of_pair[position_];
    if (++position_ == plan_.bytes_of_pair.size()) position_ = 0;
    void* data = allocator_.allocate(bytes, stream_);
    allocator_.deallocate(data, bytes, stream_);
  }

 private:
  Holes(StreamRef stream, Allocator& allocator, const HolesPlan& plan)
      : allocator_(allocator), plan_(plan), stream_(stream), blocks_(plan.bytes_of_block.size()) {}

  Allocator& allocator_;
  const HolesPlan& plan_;
  StreamRef stream_;
  std::vector<Block> blocks_;
  std::size_t position_ = 0;
};

}  // namespace berth::bench
