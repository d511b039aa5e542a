// SPDX-License-Identifier: Apache-2.0
// The part of NVML's ABI that only the simulator needs; the rest is in driver/nvml_abi.hpp.
// Source: NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/
#pragma once

#include <cstddef>

#include "driver/nvml_abi.hpp"

namespace berth::nvml {

inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kArgumentVersionMismatch = 25;

inline constexpr unsigned kInitNoGpus = 1;    ///< NVML_INIT_FLAG_NO_GPUS
inline constexpr unsigned kInitNoAttach = 2;  ///< NVML_INIT_FLAG_NO_ATTACH

/// nvmlProcessInfo_v1_t, without the instances of MIG.
struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long usedGpuMemory;
};
static_assert(sizeof(ProcessInfoV1) == 16);

/// nvmlMemory_v2_t, bytes.
struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
static_assert(sizeof(MemoryV2) == 40);
inline constexpr unsigned kMemoryV2Version = sizeof(MemoryV2) | 2U << 24;

/// nvmlGpuFabricInfo_v3_t. Version 2 ends before healthSummary.
struct GpuFabricInfo {
  unsigned version;
  unsigned char clusterUuid[16];
  Return status;
  unsigned cliqueId;
  unsigned char state;
  unsigned healthMask;
  unsigned char healthSummary;
};
static_assert(sizeof(GpuFabricInfo) == 40);
inline constexpr unsigned kGpuFabricInfoV2Version =
    offsetof(GpuFabricInfo, healthSummary) | 2U << 24;
inline constexpr unsigned kGpuFabricInfoV3Version = sizeof(GpuFabricInfo) | 3U << 24;
inline constexpr unsigned char kFabricNotSupported = 0;  ///< NVML_GPU_FABRIC_STATE_NOT_SUPPORTED

/// nvmlDeviceAttributes_t.
struct DeviceAttributes {
  unsigned multiprocessorCount;
  unsigned sharedCopyEngineCount;
  unsigned sharedDecoderCount;
  unsigned sharedEncoderCount;
  unsigned sharedJpegCount;
  unsigned sharedOfaCount;
  unsigned gpuInstanceSliceCount;
  unsigned computeInstanceSliceCount;
  unsigned long long memorySizeMB;
};
static_assert(sizeof(DeviceAttributes) == 40);

/// The result of nvmlDeviceGetPciInfo.
struct PciInfoV1 {
  char busId[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
};
static_assert(sizeof(PciInfoV1) == 32);

/// The result of its _v2.
struct PciInfoV2 {
  PciInfoV1 first;
  unsigned pciSubSystemId;
  unsigned reserved[4];
};
static_assert(sizeof(PciInfoV2) == 52);

struct Bar1Memory {
  unsigned long long bar1Total;
  unsigned long long bar1Free;
  unsigned long long bar1Used;
};

}  // namespace berth::nvml
