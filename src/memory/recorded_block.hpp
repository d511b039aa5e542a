// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "berth/allocator.hpp"

namespace berth {

/// Records `stream` on a new block of host memory, which may be null, so that its free is ordered
/// behind the stream's work, as for device memory. If that fails, the block is freed.
inline void* recorded(Allocator& allocator, void* data, StreamRef stream) {
  try {
    allocator.record_stream(data, stream);
  } catch (...) {
    allocator.deallocate(data);
    throw;
  }
  return data;
}

}  // namespace berth
