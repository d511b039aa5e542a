// SPDX-License-Identifier: Apache-2.0
// The most memory that was needed at one time in a recent period. Memory reserved beyond that was
// never needed. The age of single blocks is a worse measure: a hole from which a small block is
// repeatedly allocated never looks old.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

namespace berth {

/// Threads  One at a time.
class DemandHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Adds the peak demand, `bytes`, since the previous call.
  void add(Time now, std::size_t bytes) {
    if (!begin_) begin_ = now;
    intervals_.push_back({now, bytes});
  }
  /// The peak demand since `time`; an interval that began earlier counts in full. nullopt if the
  /// history is shorter. Drops earlier intervals.
  std::optional<std::size_t> most_since(Time time) {
    if (!begin_ || *begin_ > time) return std::nullopt;
    for (; !intervals_.empty() && intervals_.front().end <= time; intervals_.pop_front()) {
      begin_ = intervals_.front().end;
    }
    std::size_t most = 0;
    for (const Interval& interval : intervals_) most = std::max(most, interval.bytes);
    return most;
  }

 private:
  struct Interval {
    Time end;
    std::size_t bytes;
  };
  std::optional<Time> begin_;  ///< of the history
  std::deque<Interval> intervals_;
};

}  // namespace berth
