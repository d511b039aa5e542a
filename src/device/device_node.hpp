// SPDX-License-Identifier: Apache-2.0
// Whether this process may open the device file of a GPU. CUDA shows no device whose file it cannot
// open, and NVML, which opens /dev/nvidiactl alone, knows of it all the same.
// Source: NVIDIA Linux driver README, "Using the /proc File System Interface" (Device Minor), and
// "How and why are the permissions of NVIDIA device files changed".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "driver/known_device.hpp"

namespace berth {

/// What keeps this process from the device at `pci_bus_id`; empty if nothing does, and where the
/// kernel driver does not say which file is the device's. `kernel_devices` are those of
/// read_proc_devices(). Opens nothing.
std::string find_node_fault(const std::vector<KnownDevice>& kernel_devices,
                            std::string_view pci_bus_id, const std::string& dev_folder);

/// The same in words, where access(2) has refused `path` with `error`; empty if it has not.
std::string describe_node_fault(const std::string& path, int error);

}  // namespace berth
