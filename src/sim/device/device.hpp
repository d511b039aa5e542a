// SPDX-License-Identifier: Apache-2.0
// The constant facts of a simulated device. They depend only on the configuration and the slot, so
// every process with the same configuration sees the same devices.
#pragma once

#include <cuda.h>

#include <array>
#include <optional>
#include <string>

#include "sim/config.hpp"
#include "sim/device/mig.hpp"

namespace berth::sim {

struct DeviceFacts {
  int slot;  ///< place in State::devices
  std::string name;
  std::array<unsigned char, 16> uuid;
  int pci_domain;
  int pci_bus;
  int pci_device;
  std::optional<MigInstance> mig;  ///< where it is an instance, not a device

  /// The slot of the device; of an instance, that of its device.
  [[nodiscard]] int physical() const { return mig ? mig->parent : slot; }
};

DeviceFacts device_facts(const Config& config, int slot);
/// The facts of an instance of the device with the facts `parent`.
DeviceFacts instance_facts(const DeviceFacts& parent, const MigInstance& instance, int slot,
                           std::uint64_t memory_bytes);

/// "GPU-" or "MIG-" and 8-4-4-4-12 hexadecimal digits, as nvidia-smi and CUDA_VISIBLE_DEVICES write
/// it.
std::string uuid_text(const DeviceFacts& facts);
/// "00000000:1A:00.0". CUDA, and NVML in an older form, leave out the first four digits.
std::string pci_address_text(const DeviceFacts& facts);

/// An H100's identity on the bus: the device in the high half, the vendor in the low one.
inline constexpr unsigned kPciDeviceId = 0x233010de;
inline constexpr unsigned kPciSubsystemId = 0x16c110de;

/// The result of cuDeviceGetAttribute; nullopt for a number that names no attribute. The values are
/// those of a data-center GPU of compute capability 9.0; what is not simulated is denied.
std::optional<int> device_attribute(const Config& config, const DeviceFacts& facts,
                                    CUdevice_attribute attribute);

}  // namespace berth::sim
