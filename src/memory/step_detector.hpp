// SPDX-License-Identifier: Apache-2.0
// Detects the start of a program's step: live memory has fallen to one of its low points and rises
// again. Free memory is worth consolidating then, before it is split again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace berth {

/// Guarded by the lock of the allocator that it belongs to.
class StepDetector {
 public:
  /// `bytes` is an estimate of the live bytes, and exact() returns the exact value. True once for
  /// each low point that is about as low as the previous ones.
  template <class Exact>
  bool rises_from_low(std::uint64_t bytes, const Exact& exact) {
    if (bytes >= high_) high_ = low_ = bytes;
    low_ = std::min(low_, bytes);
    const bool has_fallen = high_ - low_ > high_ / kFallShare;
    const bool rises = bytes > low_ || bytes == 0;
    if (!has_fallen || !rises) return false;
    const std::uint64_t live = exact();
    const std::uint64_t above = live - std::min(live, lowest_);
    const bool is_low = above <= high_ / kFallShare;
    lowest_ = is_low ? std::min(low_, live) : lowest_ + above / kForgetShare;
    high_ = low_ = live;
    return is_low;
  }

 private:
  static constexpr std::uint64_t kFallShare = 10;
  /// Memory that becomes live for good, such as the weights of a model, raises all later low
  /// points.
  static constexpr std::uint64_t kForgetShare = 8;

  std::uint64_t high_ = 0;
  std::uint64_t low_ = 0;     ///< since then
  std::uint64_t lowest_ = 0;  ///< of the last lows
};

}  // namespace berth
