// SPDX-License-Identifier: Apache-2.0
// The part of NVML's ABI that berth uses, declared here because few installations have nvml.h.
// Source: NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/
#pragma once

namespace berth::nvml {

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kGpuIsLost = 15;

/// The size of a buffer for any UUID, name or PCI address, including the final zero.
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

/// nvmlUtilization_t, percent of the last sample period, which lasts a sixth of a second to a
/// second.
struct Utilization {
  unsigned gpu;     ///< of the time, with a kernel running
  unsigned memory;  ///< of the time, with memory being read or written
};

/// nvmlProcessInfo_t of the _v2 and _v3 functions.
struct ProcessInfo {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};
static_assert(sizeof(ProcessInfo) == 24);

/// The unknown value in ProcessInfo: usedGpuMemory, and the instance outside of MIG.
inline constexpr unsigned long long kUnknownBytes = ~0ULL;
inline constexpr unsigned kNoInstance = 0xffffffff;

/// nvmlGpuTopologyLevel_t.
enum TopologyLevel : int {
  kTopologyInternal = 0,
  kTopologySingle = 10,
  kTopologyMultiple = 20,
  kTopologyHostbridge = 30,
  kTopologyNode = 40,
  kTopologySystem = 50
};

/// nvmlGpuP2PStatus_t, as far as it is used.
enum P2pStatus : int { kP2pOk = 0, kP2pNotSupported = 5 };

/// nvmlGpuP2PCapsIndex_t.
enum P2pCaps : int { kP2pRead, kP2pWrite, kP2pNvlink, kP2pAtomics, kP2pPci, kP2pUnknown };

// clang-format off
using InitFn = Return();
using ShutdownFn = Return();
using DeviceGetCountFn = Return(unsigned* count);
using DeviceGetHandleByIndexFn = Return(unsigned index, Device* device);
using DeviceGetHandleByUuidFn = Return(const char* uuid, Device* device);
using DeviceGetUuidFn = Return(Device device, char* uuid, unsigned bytes);
using DeviceGetNameFn = Return(Device device, char* name, unsigned bytes);
using DeviceGetPciInfoFn = Return(Device device, PciInfo* pci);
using DeviceGetMemoryInfoFn = Return(Device device, Memory* memory);
using DeviceGetMigModeFn = Return(Device device, unsigned* current, unsigned* pending);
using DeviceGetNumberFn = Return(Device device, unsigned* number);
using DeviceGetMigHandleByIndexFn = Return(Device device, unsigned index, Device* instance);
using DeviceGetProcessesFn = Return(Device device, unsigned* count, ProcessInfo* processes);
using DeviceGetUtilizationFn = Return(Device device, Utilization* percent);
using DeviceGetP2pStatusFn = Return(Device from, Device to, P2pCaps capability, P2pStatus* status);
using DeviceGetTopologyFn = Return(Device one, Device other, TopologyLevel* level);

// X(member, symbol, type, need): without a required function, NVML counts as absent; without an
// optional one, its values are unknown.
#define BERTH_NVML_FUNCTIONS(X) \
  X(init,                       nvmlInit_v2,                   InitFn,                   required) \
  X(shutdown,                   nvmlShutdown,                  ShutdownFn,               required) \
  X(device_get_count,           nvmlDeviceGetCount_v2,         DeviceGetCountFn,         required) \
  X(device_get_handle_by_index, nvmlDeviceGetHandleByIndex_v2, DeviceGetHandleByIndexFn, required) \
  X(device_get_uuid,            nvmlDeviceGetUUID,             DeviceGetUuidFn,          required) \
  X(device_get_name,            nvmlDeviceGetName,             DeviceGetNameFn,          required) \
  X(device_get_pci_info,        nvmlDeviceGetPciInfo_v3,       DeviceGetPciInfoFn,       required) \
  X(device_get_memory_info,     nvmlDeviceGetMemoryInfo,       DeviceGetMemoryInfoFn,    required) \
  X(device_get_handle_by_uuid,  nvmlDeviceGetHandleByUUID,     DeviceGetHandleByUuidFn,  optional) \
  X(device_get_mig_mode,        nvmlDeviceGetMigMode,          DeviceGetMigModeFn,       optional) \
  X(device_get_max_mig_count,   nvmlDeviceGetMaxMigDeviceCount, DeviceGetNumberFn,       optional) \
  X(device_get_mig_handle,      nvmlDeviceGetMigDeviceHandleByIndex,                               \
    DeviceGetMigHandleByIndexFn, optional)                                                         \
  X(device_get_gpu_instance_id, nvmlDeviceGetGpuInstanceId,    DeviceGetNumberFn,        optional) \
  X(device_get_compute_instance_id, nvmlDeviceGetComputeInstanceId, DeviceGetNumberFn,   optional) \
  X(device_get_compute_processes, nvmlDeviceGetComputeRunningProcesses_v3, DeviceGetProcessesFn,   \
    optional)                                                                                      \
  X(device_get_graphics_processes, nvmlDeviceGetGraphicsRunningProcesses_v3, DeviceGetProcessesFn, \
    optional)                                                                                      \
  X(device_get_utilization,     nvmlDeviceGetUtilizationRates, DeviceGetUtilizationFn,   optional) \
  X(device_get_p2p_status,      nvmlDeviceGetP2PStatus,        DeviceGetP2pStatusFn,     optional) \
  X(device_get_topology,        nvmlDeviceGetTopologyCommonAncestor, DeviceGetTopologyFn, optional)
// clang-format on

}  // namespace berth::nvml
