// SPDX-License-Identifier: Apache-2.0
#include "device/own_context.hpp"

#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "device/device_context.hpp"

namespace berth {

void require_own_context(const DeviceRegistry& registry, const DeviceContext& context,
                         const char* action) {
  const Device device = context.device();
  if (device.ordinal() < registry.count() && &registry.context(device) == &context) return;
  throw InvalidArgument(format_text("a stream of {} of another Runtime cannot be {}; accepted: {}",
                                    device.to_string(), action, kOwnStream));
}

}  // namespace berth
