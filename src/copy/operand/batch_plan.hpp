// SPDX-License-Identifier: Apache-2.0
// Groups a batch of copies by the way that they are made.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "berth/copier_options.hpp"
#include "berth/copy_range.hpp"

#include "copy/operand/memory_kind.hpp"
#include "copy/operand/ranges_copy.hpp"

namespace berth {

struct PlannedCopy {
  std::unique_ptr<RangesCopy> copy;
  /// From one range of the device to many small ranges of pinned memory: faster through staging
  /// memory, although the device can write them.
  bool is_packed;

  /// If not, the driver makes the copy alone.
  [[nodiscard]] bool needs_host() const { return is_packed || copy->has_pageable(); }
};

/// find_memory_place() of a range.
using FindPlace = std::function<MemoryPlace(const void* data, std::size_t bytes)>;

/// `ranges` have been checked; those of 0 bytes are left out. Neighbours that adjoin on both sides,
/// in the same allocations, become one.
/// Errors  As find_memory_place().
std::vector<PlannedCopy> plan_batch(std::span<const CopyRange> ranges, const CopierOptions& options,
                                    const FindPlace& find);

}  // namespace berth
