// SPDX-License-Identifier: Apache-2.0
// Pooled events. Creating an event costs a driver call under the driver's lock; acquiring a pooled
// one does not.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/event.hpp"
#include "berth/export.h"
#include "berth/lease.hpp"

namespace berth {

namespace detail {
/// The pool's record of one event.
struct PooledEvent {
  EventRef ref;
  const bool timing;
  bool on_lease;
  PooledEvent* below;  ///< next in the list of idle events
};
}  // namespace detail

/// Options of an EventPool.
struct EventPoolOptions {
  /// Maximum number of events, with and without timing together; 1 or more. The bound detects
  /// programs that leak leases. The default is far above the needs of other programs: waiting for
  /// that many events has no advantage over waiting for fewer.
  std::size_t events_max = 65536;
};

/// A pool of the events of one device, with and without timing. A leased event may still carry the
/// mark of its previous lease: record it before use.
///
/// A thread keeps a few events that it returned, and acquires those first, without a lock. It
/// passes the surplus to other threads. If events_max events exist, events kept by other threads
/// are taken, and if all idle ones are of the other kind, one of them is replaced.
///
/// Blocking  Acquiring makes a driver call only to create an event, or to replace one, if all
///           events of the kind are on lease or kept by other threads. Returning makes none.
/// Threads   Safe from any thread.
/// Fork      In a child made by fork(), acquiring and counting throw NotSupported, and returning
///           has no effect.
class BERTH_API EventPool {
 public:
  using Ref = EventRef;

  /// Errors  InvalidArgument: an option out of range.
  explicit EventPool(DeviceContext& context, EventPoolOptions options = {});
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Leases an event. The Lease returns it to the pool.
  /// Errors  InvalidArgument: EventOptions::interprocess. Exhausted: events_max events are on
  ///         lease. DriverError: the driver cannot create an event.
  Lease<EventPool> acquire(EventOptions options = {});
  /// Returns an event that Lease::release() detached.
  /// Errors  InvalidArgument: not on lease from this pool.
  void give_back(EventRef event);

  /// Number of events that exist, and of leases.
  [[nodiscard]] std::size_t events_created() const;
  [[nodiscard]] std::size_t leases_live() const;

 private:
  friend class Lease<EventPool>;
  using Item = detail::PooledEvent;

  struct State;
  void give_back(Item& item) noexcept;

  std::unique_ptr<State> state_;
};

using EventLease = Lease<EventPool>;

}  // namespace berth
