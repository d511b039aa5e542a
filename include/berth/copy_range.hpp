// SPDX-License-Identifier: Apache-2.0
// Operands of copies that are not one range: rows, and the ranges of a batch.
#pragma once

#include <cstddef>

#include "berth/cpp20.hpp"

namespace berth {

/// The address of the first row, and the distance in bytes from the beginning of a row to the
/// beginning of the next.
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
