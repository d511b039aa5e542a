// SPDX-License-Identifier: Apache-2.0
// The physical devices as text and JSON, for `berth devices` and the demo.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// A table of at most 80 columns, two lines a device.
std::string devices_text(const std::vector<DeviceInfo>& devices);
nlohmann::ordered_json devices_json(const std::vector<DeviceInfo>& devices);

}  // namespace berth::tool
