// SPDX-License-Identifier: Apache-2.0
// Granules in the order of a window, as runs of consecutive numbers: a window of a thousand
// granules has a few runs, and the cost of a comparison depends only on the number of runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "heap/granule_index.hpp"

namespace berth {

/// Two sequences are equal if and only if their runs are, because runs are as long as possible.
class GranuleSequence {
 public:
  struct Run {
    GranuleNumber first = 0;
    std::uint32_t size = 0;
  };

  /// The granules from `first` to before `end`, of which there is at least one.
  void append(GranuleNumber first, GranuleNumber end) {
    BERTH_DCHECK(first < end);
    const std::uint32_t size = end - first;
    if (!runs_.empty() && runs_.back().first + runs_.back().size == first) {
      runs_.back().size += size;
    } else {
      runs_.push_back({first, size});
    }
    size_ += size;
  }
  void clear() {
    runs_.clear();
    size_ = 0;
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const Run> runs() const { return runs_; }

 private:
  std::vector<Run> runs_;
  std::size_t size_ = 0;
};

}  // namespace berth
