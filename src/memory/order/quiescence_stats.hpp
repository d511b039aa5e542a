// SPDX-License-Identifier: Apache-2.0
// Statistics of quiescence, the moments in which no stream has work pending: how frequent they are,
// and whether a query is worthwhile now.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "heap/block.hpp"

namespace berth {

/// Guarded by the slow lock of the allocator that it belongs to.
class QuiescenceStats {
 public:
  /// All streams were idle; or `busy` was busy, kUnowned if the stream is not known.
  void record_idle() {
    ++idle_answers_;
    busy_in_a_row_ = 0;
    last_busy_ = kUnowned;
  }
  void record_busy(OwnerId busy) {
    ++busy_answers_;
    ++busy_in_a_row_;
    last_busy_ = busy;
  }
  /// The stream that was busy last, which is queried first the next time; kUnowned: none.
  [[nodiscard]] OwnerId last_busy() const { return last_busy_; }
  void forget_last_busy() { last_busy_ = kUnowned; }

  /// Whether to query the streams now, or only before the heap grows. After busy answers, some
  /// requests skip the query.
  bool is_expected() {
    if (skips_ >= std::min(busy_in_a_row_, kSkipsMax)) {
      skips_ = 0;
      return true;
    }
    ++skips_;
    ++busy_answers_;  // presumably
    return false;
  }
  /// Whether streams were idle often enough since the last call. If they rarely were, the program
  /// keeps its streams busy, and each stream soon needs its own memory again.
  bool are_frequent() {
    const std::uint64_t busy = std::exchange(busy_answers_, 0);
    return busy <= kBusyPerIdle * std::exchange(idle_answers_, 0);
  }

 private:
  // Measured on programs of 2 to 10 streams: if up to 16 requests skip the query, ten streams
  // waste half as much again; if none does, they query three times as often.
  static constexpr std::uint32_t kSkipsMax = 2;
  static constexpr std::uint64_t kBusyPerIdle = 3;

  std::uint64_t busy_answers_ = 0;
  std::uint64_t idle_answers_ = 0;
  std::uint32_t busy_in_a_row_ = 0;
  std::uint32_t skips_ = 0;
  OwnerId last_busy_ = kUnowned;
};

}  // namespace berth
