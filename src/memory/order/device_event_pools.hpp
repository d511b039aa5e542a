// SPDX-License-Identifier: Apache-2.0
// Event pools of all devices, for an allocator whose memory is used by streams of every device.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"

#include "base/check.hpp"
#include "device/device_context.hpp"

namespace berth {

/// A pool for each visible device.
/// Threads  Safe from any thread.
class DeviceEventPools {
 public:
  explicit DeviceEventPools(const DeviceRegistry& registry) : registry_(registry) {
    for (int ordinal = 0; ordinal < registry.count(); ++ordinal) {
      devices_.push_back(std::make_unique<PerDevice>(registry.context(Device::cuda(ordinal))));
    }
  }

  [[nodiscard]] const DeviceRegistry& registry() const { return registry_; }
  [[nodiscard]] bool empty() const { return devices_.empty(); }
  /// Requires a device.
  [[nodiscard]] const Driver& driver() const { return devices_.front()->context.driver(); }
  [[nodiscard]] EventPool& of(const DeviceContext& context) const {
    PerDevice& device = *devices_[static_cast<std::size_t>(context.device().ordinal())];
    BERTH_CHECK(&device.context == &context);  // or it is of another Runtime
    return device.pool;
  }

 private:
  struct PerDevice {
    explicit PerDevice(DeviceContext& device) : context(device), pool(device) {}
    DeviceContext& context;
    EventPool pool;
  };

  const DeviceRegistry& registry_;
  std::vector<std::unique_ptr<PerDevice>> devices_;  ///< by logical ordinal
};

}  // namespace berth
