// SPDX-License-Identifier: Apache-2.0
// Allocates a block and frees it, again and again.
#pragma once

#include <cstddef>

#include "berth/stream.hpp"

namespace berth::bench {

/// The block comes from the cache and returns to it; the first step fills the cache.
template <class Allocator>
class HitPair {
 public:
  HitPair(Allocator& allocator, std::size_t bytes, StreamRef stream)
      : allocator_(allocator), bytes_(bytes), stream_(stream) {
    step();
  }

  void step() {
    void* data = allocator_.allocate(bytes_, stream_);
    allocator_.deallocate(data, bytes_, stream_);
  }

 private:
  Allocator& allocator_;
  std::size_t bytes_;
  StreamRef stream_;
};

/// The block comes from the driver and returns to it.
template <class Allocator>
class MissPair {
 public:
  MissPair(Allocator& allocator, std::size_t bytes, StreamRef stream)
      : allocator_(allocator), bytes_(bytes), stream_(stream) {
    allocator_.disable_cache();
  }

  void step() {
    void* data = allocator_.allocate(bytes_, stream_);
    allocator_.deallocate_uncached(data, bytes_, stream_);
  }

 private:
  Allocator& allocator_;
  std::size_t bytes_;
  StreamRef stream_;
};

}  // namespace berth::bench
