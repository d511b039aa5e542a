// SPDX-License-Identifier: Apache-2.0
// The time of each single operation, for quantiles.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"

namespace berth::bench {

class OperationTimes {
 public:
  explicit OperationTimes(std::size_t operations) : times_ns_(operations) {
    // Each time includes the cost of one reading of the clock.
    std::vector<std::int64_t> nothing_ns(10'001);
    for (std::int64_t& ns : nothing_ns) ns = time_ns([] {});
    const auto middle = nothing_ns.begin() + static_cast<std::ptrdiff_t>(nothing_ns.size() / 2);
    std::nth_element(nothing_ns.begin(), middle, nothing_ns.end());
    clock_ns_ = *middle;
  }

  /// Executes an operation, and adds its time. At most as many operations as the constructor was
  /// given.
  template <class Operation>
  void add(Operation operation) {
    BERTH_DCHECK(count_ < times_ns_.size());
    times_ns_[count_++] = time_ns(operation);
  }
  void clear() { count_ = 0; }

  // Both exclude the clock's own time.
  [[nodiscard]] double mean_ns() const {
    if (count_ == 0) return 0;
    std::int64_t sum_ns = 0;
    for (std::size_t index = 0; index < count_; ++index) sum_ns += times_ns_[index];
    return std::max(
        static_cast<double>(sum_ns) / static_cast<double>(count_) - static_cast<double>(clock_ns_),
        0.0);
  }
  /// The time that a fraction `share` of the operations does not exceed.
  [[nodiscard]] double quantile_ns(double share) {
    if (count_ == 0) return 0;
    const auto rank = std::min(static_cast<std::ptrdiff_t>(share * static_cast<double>(count_)),
                               static_cast<std::ptrdiff_t>(count_ - 1));
    const auto end = times_ns_.begin() + static_cast<std::ptrdiff_t>(count_);
    std::nth_element(times_ns_.begin(), times_ns_.begin() + rank, end);
    return static_cast<double>(
        std::max<std::int64_t>(times_ns_[static_cast<std::size_t>(rank)] - clock_ns_, 0));
  }

 private:
  template <class Operation>
  static std::int64_t time_ns(Operation operation) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    operation();
    return std::chrono::nanoseconds(Clock::now() - begin).count();
  }

  std::vector<std::int64_t> times_ns_;  // written once beforehand, so that all pages are resident
  std::size_t count_ = 0;
  std::int64_t clock_ns_ = 0;
};

}  // namespace berth::bench
