// SPDX-License-Identifier: Apache-2.0
// The facts about every device that the driver or NVML knows.
#pragma once

#include <vector>

#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"

namespace berth {

/// What CUDA shows, in the driver's order; DeviceInfo::physical is not filled in.
std::vector<DeviceInfo> read_visible_devices(const Driver& driver);

/// Joins what CUDA shows with what NVML knows, by UUID; in PCI order, numbered.
std::vector<DeviceInfo> join_devices(std::vector<DeviceInfo> visible,
                                     const std::vector<Nvml::Device>& known);

}  // namespace berth
