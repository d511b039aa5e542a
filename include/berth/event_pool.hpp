// SPDX-License-Identifier: Apache-2.0
// Events for hire: creating one costs a driver call under the driver's lock, taking a pooled one
// does not.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/event.hpp"
#include "berth/export.h"
#include "berth/lease.hpp"

namespace berth {

struct EventPoolOptions {
  /// Events that exist at most, of both kinds together, 1 or more. A bound for programs that lose
  /// leases, far from what others need: one that waits for so many points in its work at once has
  /// gained nothing over waiting for fewer.
  std::size_t events_max = 65536;
};

/// The events of one device, timing and non-timing apart. A leased event may still carry the mark
/// of its last lease: record it before use.
///
/// A thread keeps a few events that it gave back, and takes those first, without a lock. What it has
/// too many of goes to the others; where events_max exist, those that other threads keep are taken.
///
/// Blocking  Acquiring makes no driver call but to create an event, where all are out or with other
///           threads; giving back, none.
/// Threads   Safe from any thread.
/// Fork      In a child made by fork() acquiring and counting fail with NotSupported; giving back does
///           nothing.
class BERTH_API EventPool {
 public:
  using Ref = EventRef;
  /// What a Lease holds.
  struct Item {
    EventRef ref;
    const bool timing;
    bool on_lease;
    Item* below;  ///< among those that are idle
  };

  /// Errors  InvalidArgument: an option out of range.
  explicit EventPool(DeviceContext& context, EventPoolOptions options = {});
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Errors  InvalidArgument: EventOptions::interprocess. Exhausted: events_max are on lease.
  ///         DriverError: the driver cannot create an event.
  Lease<EventPool> acquire(EventOptions options = {});
  /// What Lease calls.
  void give_back(Item& item) noexcept;
  /// For what came from Lease::release().
  /// Errors  InvalidArgument: not on lease from this pool.
  void give_back(EventRef event);

  [[nodiscard]] std::size_t events_created() const;
  [[nodiscard]] std::size_t leases_live() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using EventLease = Lease<EventPool>;

}  // namespace berth
