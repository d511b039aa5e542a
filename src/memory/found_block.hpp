// SPDX-License-Identifier: Apache-2.0
// A live block, as an allocator knows it.
#pragma once

#include <cstddef>

namespace berth {

struct FoundBlock {
  void* block = nullptr;  ///< its start; null if there is none
  std::size_t bytes = 0;  ///< its size, including what rounding added
};

}  // namespace berth
