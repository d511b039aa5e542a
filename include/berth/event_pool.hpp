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

/// The events of one device, timing and non-timing apart. A leased event may still carry the mark
/// of its last lease: record it before use.
///
/// Blocking  Acquiring makes no driver call unless every pooled event is out; giving back, none.
/// Threads   Safe from any thread.
class BERTH_API EventPool {
 public:
  using Ref = EventRef;

  explicit EventPool(DeviceContext& context);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Errors  DriverError: the driver cannot create an event.
  Lease<EventPool> acquire(EventOptions options = {});
  /// What Lease calls. `event` must be on lease from this pool.
  void give_back(EventRef event) noexcept;

  [[nodiscard]] std::size_t events_created() const;
  [[nodiscard]] std::size_t leases_live() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using EventLease = Lease<EventPool>;

}  // namespace berth
