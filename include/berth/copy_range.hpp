// SPDX-License-Identifier: Apache-2.0
// What a copy is between, where it is not in one piece: rows, and the ranges of a batch.
#pragma once

#include <cstddef>

#include "berth/cpp20.hpp"

namespace berth {

/// The first of some rows that lie `pitch` bytes apart, counted from one row's begin to the next
/// one's.
struct PitchedTarget {
  void* data;
  std::size_t pitch;
};
struct PitchedSource {
  const void* data;
  std::size_t pitch;
};

/// One copy of a batch.
struct CopyRange {
  void* target;
  const void* source;
  std::size_t bytes;
};

}  // namespace berth
