// SPDX-License-Identifier: Apache-2.0
// Allocates a block of pinned memory and frees it, again and again.
#pragma once

#include <cstddef>

#include "berth/pinned_allocator.hpp"

namespace berth::bench {

/// The block comes from the cache and returns to it; the first step fills the cache.
class PinnedPair {
 public:
  PinnedPair(PinnedAllocator& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {
    step();
  }
  ~PinnedPair() { memory_.trim(); }
  PinnedPair(const PinnedPair&) = delete;
  PinnedPair& operator=(const PinnedPair&) = delete;

  void step() { memory_.deallocate(memory_.allocate_raw(bytes_)); }

 private:
  PinnedAllocator& memory_;
  const std::size_t bytes_;
};

}  // namespace berth::bench
