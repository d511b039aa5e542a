// SPDX-License-Identifier: Apache-2.0
// The properties of a visible device, as text and JSON, for `berth devices`.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// "compute 9.0, 132 multiprocessors, ...", without unknown values.
std::string facts_text(const DeviceRegistry& devices, const DeviceInfo& visible);
/// The permitted and actual use: "compute mode shared, 3.00 GiB in use, 2 other processes hold 1.00
/// GiB, 12 % busy", without unknown values.
std::string use_text(const DeviceRegistry& devices, const DeviceInfo& visible);
/// Adds `facts`, `utilization_percent`, `memory_use` and `peers` to `entry`; null: unknown.
void add_facts(nlohmann::ordered_json& entry, const DeviceRegistry& devices,
               const DeviceInfo& visible);

}  // namespace berth::tool
