// SPDX-License-Identifier: Apache-2.0
// All existing devices: the devices that CUDA shows, matched with those that NVML or the kernel
// driver reports.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/known_device.hpp"

namespace berth {

/// A device as CUDA shows it, which may be a MIG instance.
struct ShownDevice {
  int ordinal = 0;
  std::optional<CUuuid> uuid;
  std::string pci_bus_id;  ///< an instance has its device's
  std::string name;
  std::uint64_t memory_bytes = 0;
};

/// In the driver's order. Properties that the driver does not report are nullopt, empty or 0.
std::vector<ShownDevice> read_shown_devices(const Driver& driver);

struct DeviceList {
  std::vector<DeviceInfo> devices;    ///< whole ones, in PCI order, numbered
  std::vector<DeviceInfo> instances;  ///< by device, in NVML's order
};

/// Matches by UUID, or by PCI address if one side has no UUID, and never by position. If the two
/// sides differ, CUDA is right. An instance that only CUDA reports is assigned to its device by
/// address.
DeviceList join_devices(const std::vector<ShownDevice>& shown, std::vector<KnownDevice> known);

}  // namespace berth
