// SPDX-License-Identifier: Apache-2.0
// The time of each single operation of a replay, for what a mean hides.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/replay.hpp"

namespace berth::bench {

class OperationTimes {
 public:
  explicit OperationTimes(std::size_t operations) : times_ns_(operations) {
    // What a reading of the clock costs beside the next one is in each of the times.
    std::vector<std::int64_t> nothing_ns(10'001);
    for (std::int64_t& ns : nothing_ns) ns = time_ns([] {});
    const auto middle = nothing_ns.begin() + static_cast<std::ptrdiff_t>(nothing_ns.size() / 2);
    std::nth_element(nothing_ns.begin(), middle, nothing_ns.end());
    clock_ns_ = *middle;
  }

  /// Adds the times of one pass. No more operations in all than the constructor was told of.
  template <class Allocator>
  void add_pass(Replay<Allocator>& replay, const ReplayPlan& plan) {
    for (const ReplayPlan::Operation& operation : plan.operations) {
      times_ns_[count_++] = time_ns([&] { replay.run(operation); });
    }
  }

  /// The time that `share` of the operations do not exceed, without the clock's own.
  [[nodiscard]] double quantile_ns(double share) {
    const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(count_));
    const auto end = times_ns_.begin() + static_cast<std::ptrdiff_t>(count_);
    std::nth_element(times_ns_.begin(), times_ns_.begin() + rank, end);
    return static_cast<double>(std::max<std::int64_t>(times_ns_[rank] - clock_ns_, 0));
  }

 private:
  template <class Operation>
  static std::int64_t time_ns(Operation operation) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    operation();
    return std::chrono::nanoseconds(Clock::now() - begin).count();
  }

  std::vector<std::int64_t> times_ns_;  // written once beforehand, so that no page is fresh
  std::size_t count_ = 0;
  std::int64_t clock_ns_ = 0;
};

}  // namespace berth::bench
