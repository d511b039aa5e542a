// SPDX-License-Identifier: Apache-2.0
// The NVML face: every physical device, whatever CUDA_VISIBLE_DEVICES hides, in order of PCI
// address. Source: NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

constexpr nvml::Return kDriverNotLoaded = 9;  // NVML_ERROR_DRIVER_NOT_LOADED

/// A device handle is this and the slot: no valid address, and nothing else's handle.
constexpr std::uint64_t kHandleBase = std::uint64_t{0xA} << 60;

/// The simulator, where NVML is initialised; otherwise null.
State* initialized() BERTH_REQUIRES(mutex) {
  State* state = installed_state();
  return state != nullptr && state->nvml_users > 0 ? state : nullptr;
}

Device* find(State& state, nvml::Device handle) {
  const std::uint64_t slot = to_handle(handle) - kHandleBase;
  return slot < state.devices.size() ? &state.devices[slot] : nullptr;
}

nvml::Return give_text(char* out, unsigned bytes, std::string_view text) {
  if (out == nullptr) return nvml::kInvalidArgument;
  if (bytes <= text.size()) return nvml::kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return nvml::kSuccess;
}

}  // namespace

nvml::Return berth_sim_nvmlInit_v2() {
  MutexLock lock(mutex);
  State* state = installed_or_from_environment();
  if (state == nullptr) return kDriverNotLoaded;
  ++state->nvml_users;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlShutdown() {
  MutexLock lock(mutex);
  State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  --state->nvml_users;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetCount_v2(unsigned* count) {
  MutexLock lock(mutex);
  const State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  if (count == nullptr) return nvml::kInvalidArgument;
  *count = static_cast<unsigned>(state->devices.size());
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  MutexLock lock(mutex);
  const State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  if (device == nullptr || index >= state->devices.size()) return nvml::kInvalidArgument;
  *device = from_handle<nvml::Device>(kHandleBase + index);
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetUUID(nvml::Device device, char* uuid, unsigned bytes) {
  MutexLock lock(mutex);
  State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  const Device* found = find(*state, device);
  if (found == nullptr) return nvml::kInvalidArgument;
  return give_text(uuid, bytes, uuid_text(found->facts));
}

nvml::Return berth_sim_nvmlDeviceGetName(nvml::Device device, char* name, unsigned bytes) {
  MutexLock lock(mutex);
  State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  const Device* found = find(*state, device);
  if (found == nullptr) return nvml::kInvalidArgument;
  return give_text(name, bytes, found->facts.name);
}

nvml::Return berth_sim_nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::PciInfo* pci) {
  MutexLock lock(mutex);
  State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  const Device* found = find(*state, device);
  if (found == nullptr || pci == nullptr) return nvml::kInvalidArgument;
  const DeviceFacts& facts = found->facts;
  *pci = {};
  pci->domain = static_cast<unsigned>(facts.pci_domain);
  pci->bus = static_cast<unsigned>(facts.pci_bus);
  pci->device = static_cast<unsigned>(facts.pci_device);
  pci->pciDeviceId = 0x233010de;  // an H100; the vendor stands in the low half
  const std::string place = fmt::format(":{:02X}:{:02X}.0", facts.pci_bus, facts.pci_device);
  give_text(pci->busIdLegacy, sizeof(pci->busIdLegacy),
            fmt::format("{:04X}", facts.pci_domain) + place);
  give_text(pci->busId, sizeof(pci->busId), fmt::format("{:08X}", facts.pci_domain) + place);
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  MutexLock lock(mutex);
  State* state = initialized();
  if (state == nullptr) return nvml::kUninitialized;
  const Device* found = find(*state, device);
  if (found == nullptr || memory == nullptr) return nvml::kInvalidArgument;
  memory->total = found->memory->bytes_total();
  memory->free = found->memory->bytes_free();
  memory->used = memory->total - memory->free;
  return nvml::kSuccess;
}

}  // namespace berth::sim
