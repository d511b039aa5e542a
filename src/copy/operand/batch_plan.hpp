// SPDX-License-Identifier: Apache-2.0
// Groups a batch of copies by their path.
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
  /// The copy is from one range of the device to many small ranges of pinned memory: staging memory
  /// is faster, although the device could write the ranges directly.
  bool is_packed;

  /// If false, the driver makes the copy alone.
  [[nodiscard]] bool needs_host() const { return is_packed || copy->has_pageable(); }
};

/// find_allocation() of a range.
using FindAllocation = std::function<AllocationInfo(const void* data, std::size_t bytes)>;

/// `ranges` have been checked; ranges of 0 bytes are omitted. Neighbors that are contiguous on both
/// sides, in the same allocations, are merged.
/// Errors  As find_allocation().
std::vector<PlannedCopy> plan_batch(std::span<const CopyRange> ranges, const CopierOptions& options,
                                    const FindAllocation& find);

}  // namespace berth
