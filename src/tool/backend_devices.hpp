// SPDX-License-Identifier: Apache-2.0
// The devices of backends, for `berth devices`.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// A table of the devices and of hidden chips, and the reasons why types have no devices; with
/// `explain` a sentence under each. Empty if there is no backend and no reason.
std::string backend_devices_text(const DeviceRegistry& devices, bool explain = false);
/// One object for each type that has a backend, or a reason why it has none.
nlohmann::ordered_json backend_devices_json(const DeviceRegistry& devices);

}  // namespace berth::tool
