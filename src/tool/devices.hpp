// SPDX-License-Identifier: Apache-2.0
// The devices as text and JSON, for `berth devices` and the demo.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// A table of at most 80 columns, two lines a device, four a visible one; with `explain` a sentence
/// under each.
std::string devices_text(const DeviceRegistry& devices, bool explain = false);
/// The physical devices, their instances in them.
nlohmann::ordered_json devices_json(const DeviceRegistry& devices);

}  // namespace berth::tool
