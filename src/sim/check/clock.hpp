// SPDX-License-Identifier: Apache-2.0
// A vector clock. Guarded by sim::mutex where it is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::sim {

/// A place in a clock: one stream at a time.
using Lane = std::uint32_t;

/// The operation number `time` of a lane, from 1.
struct Stamp {
  Lane lane = 0;
  std::uint64_t time = 0;
};

/// Which operations of each lane come before some moment.
class Clock {
 public:
  [[nodiscard]] bool includes(Stamp stamp) const { return time_of(stamp.lane) >= stamp.time; }
  /// The latest operation of `lane` that comes before; 0: none.
  [[nodiscard]] std::uint64_t time_of(Lane lane) const {
    return lane < times_.size() ? times_[lane] : 0;
  }
  /// Both say whether that was news.
  bool include(Stamp stamp);
  bool join(const Clock& other);

 private:
  std::vector<std::uint64_t> times_;
};

}  // namespace berth::sim
