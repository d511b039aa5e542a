// SPDX-License-Identifier: Apache-2.0
// Whether this process may open the device file of a GPU. CUDA does not show a device whose file it
// cannot open. NVML opens only /dev/nvidiactl, and so still reports the device. Source: NVIDIA
// Linux driver README, "Using the /proc File System Interface" (Device Minor), and "How and why are
// the permissions of NVIDIA device files changed".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "driver/known_device.hpp"

namespace berth {

/// The reason why this process cannot open the device at `pci_bus_id`; empty if it can, or if the
/// kernel driver does not report the device's file. `kernel_devices` is the result of
/// read_proc_devices(). Opens no file.
std::string find_node_fault(const std::vector<KnownDevice>& kernel_devices,
                            std::string_view pci_bus_id, const std::string& dev_folder);

/// The text of that reason, if access(2) has refused `path` with `error`; empty if it has not.
std::string describe_node_fault(const std::string& path, int error);

}  // namespace berth
