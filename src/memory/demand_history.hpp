// SPDX-License-Identifier: Apache-2.0
// The most memory that was needed at one time in a recent period. Memory reserved beyond that was
// idle all the time, whichever bytes it was. The age of single blocks would tell less: a hole that
// a small block is repeatedly taken from never looks old.
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

  /// At most `bytes` were needed at one time since the previous call.
  void add(Time now, std::size_t bytes) {
    if (!begin_) begin_ = now;
    intervals_.push_back({now, bytes});
  }
  /// The most that was needed since `time`; an interval that began earlier counts in full. nullopt
  /// if the history is shorter. Drops earlier intervals.
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
  std::optional<Time> begin_;  ///< of what is known
  std::deque<Interval> intervals_;
};

}  // namespace berth
