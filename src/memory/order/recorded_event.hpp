// SPDX-License-Identifier: Apache-2.0
// An event that marks a use of a block, and when it was recorded.
//
// Events are recorded outside of the allocator's lock, so the clock that is kept under it (of
// BlockUses) cannot name the moment. It names a span that the moment lies in. Spans that do not
// overlap tell the order of two events of one stream, and that is what matters: the later one has
// passed only where the earlier one has. Of spans that overlap, nothing is said.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "berth/event_pool.hpp"

namespace berth {

/// A pooled event that marks some work; shared by all that wait for that work.
using SharedEvent = std::shared_ptr<const EventLease>;

/// Without an event: one that is still to be recorded, later than all that there are.
struct RecordedEvent {
  static constexpr std::uint64_t kLater = std::numeric_limits<std::uint64_t>::max();

  SharedEvent event = nullptr;
  std::uint64_t after = kLater;   ///< the clock when recording began
  std::uint64_t before = kLater;  ///< the clock, which went on for it, once it was recorded

  /// Whether `other`, of the same stream, has passed where this one has.
  [[nodiscard]] bool covers(const RecordedEvent& other) const { return other.before <= after; }
};

}  // namespace berth
