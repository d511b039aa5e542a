// SPDX-License-Identifier: Apache-2.0
#include "device/physical_devices.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

namespace berth {
namespace {

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int index = 0; index < 16; ++index) {
    if (index == 4 || index == 6 || index == 8 || index == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[index]));
  }
  return text;
}

/// CUDA prints the domain of a PCI address in four digits, NVML in eight. Eight, upper case.
std::string pci_text(std::string text) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && colon < 8) text.insert(0, 8 - colon, '0');
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace

std::vector<DeviceInfo> read_visible_devices(const Driver& driver) {
  std::vector<DeviceInfo> devices;
  if (!driver.usable()) return devices;
  int count = 0;
  driver.device_get_count(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    CUuuid uuid{};
    char pci[32] = {};
    char name[256] = {};
    std::size_t bytes = 0;
    driver.device_get(&device, ordinal);
    driver.device_get_uuid(&uuid, device);
    driver.device_get_pci_bus_id(pci, int{sizeof pci}, device);
    driver.device_get_name(name, int{sizeof name}, device);
    driver.device_total_mem(&bytes, device);
    devices.push_back({0, ordinal, uuid_text(uuid), pci_text(pci), name, bytes});
  }
  return devices;
}

std::vector<DeviceInfo> join_devices(std::vector<DeviceInfo> visible,
                                     const std::vector<Nvml::Device>& known) {
  std::vector<DeviceInfo> devices = std::move(visible);
  for (const Nvml::Device& device : known) {
    const bool shown = std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
      return info.uuid == device.uuid;
    });
    if (shown) continue;
    devices.push_back({0, std::nullopt, device.uuid, pci_text(device.pci_bus_id), device.name,
                       device.memory_bytes});
  }
  std::stable_sort(devices.begin(), devices.end(), [](const DeviceInfo& a, const DeviceInfo& b) {
    return a.pci_bus_id < b.pci_bus_id;
  });
  for (std::size_t index = 0; index < devices.size(); ++index) {
    devices[index].physical = static_cast<int>(index);
  }
  return devices;
}

}  // namespace berth
