// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "berth/device_registry.hpp"

#include "device/device_context.hpp"

namespace berth {

inline void remove_observer_of_all(const DeviceRegistry& registry,
                                   StreamObserver& observer) noexcept {
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal)
    registry.context(Device::cuda(ordinal)).remove_observer(observer);
}

/// Adds an observer to the contexts of all visible devices.
/// Errors  std::bad_alloc: it is added to none.
inline void add_observer_of_all(const DeviceRegistry& registry, StreamObserver& observer) {
  try {
    for (int ordinal = 0; ordinal < registry.count(); ++ordinal)
      registry.context(Device::cuda(ordinal)).add_observer(observer);
  } catch (...) {
    remove_observer_of_all(registry, observer);
    throw;
  }
}

}  // namespace berth
