// SPDX-License-Identifier: Apache-2.0
// Device handles by index, UUID and PCI address, and the reverse.
// Source: NVML API Reference Guide, "Device Queries".
#include <cctype>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/device/pci_address.hpp"
#include "sim/nvml/nvml_call.hpp"

namespace berth::sim {
namespace {

bool is_at(const DeviceFacts& facts, const PciAddress& address) {
  return address.domain == static_cast<unsigned>(facts.pci_domain) &&
         address.bus == static_cast<unsigned>(facts.pci_bus) &&
         address.device == static_cast<unsigned>(facts.pci_device) && address.function == 0;
}

/// With the short form of the address, the only one in the older ABI.
nvml::PciInfoV1 first_part(const nvml::PciInfo& pci) {
  nvml::PciInfoV1 first{{}, pci.domain, pci.bus, pci.device, pci.pciDeviceId};
  std::memcpy(first.busId, pci.busIdLegacy, sizeof(first.busId));
  return first;
}

/// Whether `text` has the format of a simulated UUID.
bool is_uuid(std::string_view text) {
  constexpr std::string_view kForm = "xxx-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return false;
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 4; i < kForm.size(); ++i)
    if (kForm[i] == '-' ? text[i] != '-' : std::isxdigit(static_cast<unsigned char>(text[i])) == 0)
      return false;
  return true;
}

}  // namespace

nvml::Return berth_sim_nvmlDeviceGetCount_v2(unsigned* count) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (count == nullptr) return nvml::kInvalidArgument;
  *count = static_cast<unsigned>(call.state().config.devices);
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (device == nullptr || index >= static_cast<unsigned>(call.state().config.devices))
    return nvml::kInvalidArgument;
  *device = nvml_handle(index);
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetHandleByUUID(const char* uuid, nvml::Device* device) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (uuid == nullptr || device == nullptr || !is_uuid(uuid)) return nvml::kInvalidArgument;
  const std::vector<Device>& devices = call.state().devices;
  for (std::size_t place = 0; place < devices.size(); ++place) {
    if (uuid_text(devices[place].facts) != uuid) continue;
    *device = nvml_handle(place);
    return nvml::kSuccess;
  }
  return nvml::kNotFound;
}

nvml::Return berth_sim_nvmlDeviceGetHandleByPciBusId_v2(const char* address, nvml::Device* device) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (address == nullptr || device == nullptr) return nvml::kInvalidArgument;
  const std::optional<PciAddress> parsed = parse_pci_address(address);
  if (!parsed) return nvml::kInvalidArgument;
  const std::vector<Device>& devices = call.state().devices;
  for (std::size_t place = 0; place < devices.size(); ++place) {
    if (devices[place].facts.mig || !is_at(devices[place].facts, *parsed)) continue;
    *device = nvml_handle(place);
    return nvml::kSuccess;
  }
  return nvml::kNotFound;
}

// No simulated device has a serial number.
nvml::Return berth_sim_nvmlDeviceGetHandleBySerial(const char* serial, nvml::Device* device) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  return serial == nullptr || device == nullptr ? nvml::kInvalidArgument : nvml::kNotFound;
}

nvml::Return berth_sim_nvmlDeviceGetUUID(nvml::Device device, char* uuid, unsigned bytes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr) return nvml::kInvalidArgument;
  return write_text(uuid, bytes, uuid_text(found->facts));
}

nvml::Return berth_sim_nvmlDeviceGetIndex(nvml::Device device, unsigned* index) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || index == nullptr) return nvml::kInvalidArgument;
  const DeviceFacts& facts = found->facts;
  *index = static_cast<unsigned>(facts.mig ? facts.mig->index : facts.slot);
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetMinorNumber(nvml::Device device, unsigned* minor) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || minor == nullptr) return nvml::kInvalidArgument;
  *minor = static_cast<unsigned>(found->facts.slot);
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetPciInfo(nvml::Device device, nvml::PciInfoV1* pci) {
  if (pci == nullptr) return berth_sim_nvmlDeviceGetPciInfo_v3(device, nullptr);
  nvml::PciInfo newest{};
  const nvml::Return result = berth_sim_nvmlDeviceGetPciInfo_v3(device, &newest);
  if (result == nvml::kSuccess) *pci = first_part(newest);
  return result;
}

nvml::Return berth_sim_nvmlDeviceGetPciInfo_v2(nvml::Device device, nvml::PciInfoV2* pci) {
  if (pci == nullptr) return berth_sim_nvmlDeviceGetPciInfo_v3(device, nullptr);
  nvml::PciInfo newest{};
  const nvml::Return result = berth_sim_nvmlDeviceGetPciInfo_v3(device, &newest);
  if (result == nvml::kSuccess) *pci = {first_part(newest), newest.pciSubSystemId, {}};
  return result;
}

nvml::Return berth_sim_nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::PciInfo* pci) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || pci == nullptr) return nvml::kInvalidArgument;
  const DeviceFacts& facts = found->facts;
  *pci = {};
  pci->domain = static_cast<unsigned>(facts.pci_domain);
  pci->bus = static_cast<unsigned>(facts.pci_bus);
  pci->device = static_cast<unsigned>(facts.pci_device);
  pci->pciDeviceId = kPciDeviceId;
  pci->pciSubSystemId = kPciSubsystemId;
  const std::string address = pci_address_text(facts);
  write_text(pci->busIdLegacy, sizeof(pci->busIdLegacy), std::string_view(address).substr(4));
  write_text(pci->busId, sizeof(pci->busId), address);
  return nvml::kSuccess;
}

}  // namespace berth::sim
