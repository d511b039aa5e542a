// SPDX-License-Identifier: Apache-2.0
// All existing devices: those that CUDA shows, joined with those that NVML or the kernel driver
// knows.
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

/// A device as CUDA shows it, which may be an instance of MIG.
struct ShownDevice {
  int ordinal = 0;
  std::optional<CUuuid> uuid;
  std::string pci_bus_id;  ///< an instance has its device's
  std::string name;
  std::uint64_t memory_bytes = 0;
};

/// In the driver's order. What the driver refuses to tell of a device is nullopt, empty or 0.
/// Errors  DriverError: the driver does not say which devices it shows.
std::vector<ShownDevice> read_shown_devices(const Driver& driver);

struct DeviceList {
  std::vector<DeviceInfo> devices;    ///< whole ones, in PCI order, numbered
  std::vector<DeviceInfo> instances;  ///< by device, in NVML's order
};

/// Joins by UUID, and by PCI address where one side knows no UUID: never by position. Where the two
/// differ CUDA is right. An instance that only CUDA knows finds its device by its address.
DeviceList join_devices(const std::vector<ShownDevice>& shown, std::vector<KnownDevice> known);

}  // namespace berth
