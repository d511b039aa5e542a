// SPDX-License-Identifier: Apache-2.0
// An event that marks a use of a block, and the time of its record.
//
// Events are recorded outside the allocator's lock, so the clock that is kept under the lock (in
// BlockUses) cannot give the exact time. It gives a span that contains the time. If the spans of
// two events of one stream do not overlap, their order is known: the later event has passed only if
// the earlier one has. If the spans overlap, the order is unknown.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "berth/event_pool.hpp"

namespace berth {

/// A pooled event that marks some work, shared by all users that wait for that work.
using SharedEvent = std::shared_ptr<const EventLease>;

/// Without an event: an event that will be recorded later than all existing ones.
struct RecordedEvent {
  static constexpr std::uint64_t kLater = std::numeric_limits<std::uint64_t>::max();

  SharedEvent event = nullptr;
  std::uint64_t after = kLater;   ///< the clock when recording began
  std::uint64_t before = kLater;  ///< the clock after the record, which advanced it

  /// Whether `other`, of the same stream, has passed if this one has.
  [[nodiscard]] bool covers(const RecordedEvent& other) const { return other.before <= after; }
};

}  // namespace berth
