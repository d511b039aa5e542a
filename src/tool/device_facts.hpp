// SPDX-License-Identifier: Apache-2.0
// What a visible device can do, as text and JSON, for `berth devices`.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// "compute 9.0, 132 multiprocessors, ...": what is unknown is left out.
std::string facts_text(const DeviceRegistry& devices, const DeviceInfo& visible);
/// Who may use it, and who does: "compute mode shared, 3.00 GiB in use, 2 other processes hold
/// 1.00 GiB, 12 % busy"; likewise.
std::string use_text(const DeviceRegistry& devices, const DeviceInfo& visible);
/// Adds `facts`, `utilization_percent`, `memory_use` and `peers` to `entry`; null is unknown.
void add_facts(nlohmann::ordered_json& entry, const DeviceRegistry& devices,
               const DeviceInfo& visible);

}  // namespace berth::tool
