// SPDX-License-Identifier: Apache-2.0
// The part of NVML's ABI that berth uses, declared here because few installations have nvml.h.
// Source: NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/
#pragma once

namespace berth::nvml {

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;

/// The buffer that holds any UUID, name or PCI address, its final zero included.
inline constexpr unsigned kTextBytes = 96;

struct DeviceHandle;  ///< opaque: nvmlDevice_st
using Device = DeviceHandle*;

/// nvmlPciInfo_t of the _v3 functions.
struct PciInfo {
  char busIdLegacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};
static_assert(sizeof(PciInfo) == 68);

/// nvmlMemory_t, bytes.
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// clang-format off
using InitFn = Return();
using ShutdownFn = Return();
using DeviceGetCountFn = Return(unsigned* count);
using DeviceGetHandleByIndexFn = Return(unsigned index, Device* device);
using DeviceGetUuidFn = Return(Device device, char* uuid, unsigned bytes);
using DeviceGetNameFn = Return(Device device, char* name, unsigned bytes);
using DeviceGetPciInfoFn = Return(Device device, PciInfo* pci);
using DeviceGetMemoryInfoFn = Return(Device device, Memory* memory);

// X(member, symbol, type): all are needed, or NVML counts as absent.
#define BERTH_NVML_FUNCTIONS(X) \
  X(init,                       nvmlInit_v2,                   InitFn) \
  X(shutdown,                   nvmlShutdown,                  ShutdownFn) \
  X(device_get_count,           nvmlDeviceGetCount_v2,         DeviceGetCountFn) \
  X(device_get_handle_by_index, nvmlDeviceGetHandleByIndex_v2, DeviceGetHandleByIndexFn) \
  X(device_get_uuid,            nvmlDeviceGetUUID,             DeviceGetUuidFn) \
  X(device_get_name,            nvmlDeviceGetName,             DeviceGetNameFn) \
  X(device_get_pci_info,        nvmlDeviceGetPciInfo_v3,       DeviceGetPciInfoFn) \
  X(device_get_memory_info,     nvmlDeviceGetMemoryInfo,       DeviceGetMemoryInfoFn)
// clang-format on

}  // namespace berth::nvml
