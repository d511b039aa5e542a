// SPDX-License-Identifier: Apache-2.0
// The physical devices as NVIDIA's kernel driver lists them in /proc/driver/nvidia/gpus, for
// machines and containers without NVML. Source: NVIDIA Linux driver README, "Using the /proc File
// System Interface".
#pragma once

#include <string>
#include <vector>

#include "driver/known_device.hpp"

namespace berth {

/// From the files `information` in the folders of `root`, which are named after PCI addresses.
/// Other folders, and files that cannot be read, are left out. A UUID that the driver has not read
/// yet, because the device was never used, is unknown. In the order of the addresses.
std::vector<KnownDevice> read_proc_devices(const std::string& root);

}  // namespace berth
