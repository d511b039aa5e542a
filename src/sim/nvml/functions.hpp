// SPDX-License-Identifier: Apache-2.0
// Every simulated function of NVML beyond those that berth itself uses, which driver/nvml_abi.hpp
// lists:
//
//   X(symbol, parameters)
//
// Each is defined once as berth_sim_<symbol>.
#pragma once

#include "berth/export.h"

#include "sim/nvml/types.hpp"

// clang-format off
#define BERTH_SIM_NVML_FUNCTIONS(X) \
  X(nvmlInitWithFlags,                   (unsigned flags)) \
  X(nvmlSystemGetDriverVersion,          (char* version, unsigned bytes)) \
  X(nvmlSystemGetNVMLVersion,            (char* version, unsigned bytes)) \
  X(nvmlSystemGetCudaDriverVersion_v2,   (int* version)) \
  X(nvmlSystemGetProcessName,            (unsigned pid, char* name, unsigned bytes)) \
  X(nvmlDeviceGetHandleByPciBusId_v2,    (const char* address, Device* device)) \
  X(nvmlDeviceGetHandleBySerial,         (const char* serial, Device* device)) \
  X(nvmlDeviceGetIndex,                  (Device device, unsigned* index)) \
  X(nvmlDeviceGetMinorNumber,            (Device device, unsigned* minor)) \
  X(nvmlDeviceGetMemoryInfo_v2,          (Device device, MemoryV2* memory)) \
  X(nvmlDeviceGetComputeRunningProcesses, \
    (Device device, unsigned* count, ProcessInfoV1* processes)) \
  X(nvmlDeviceGetGraphicsRunningProcesses, \
    (Device device, unsigned* count, ProcessInfoV1* processes)) \
  X(nvmlDeviceGetMPSComputeRunningProcesses, \
    (Device device, unsigned* count, ProcessInfoV1* processes)) \
  X(nvmlDeviceGetMPSComputeRunningProcesses_v3, \
    (Device device, unsigned* count, ProcessInfo* processes)) \
  X(nvmlDeviceGetCudaComputeCapability,  (Device device, int* major, int* minor)) \
  X(nvmlDeviceGetComputeMode,            (Device device, int* mode)) \
  X(nvmlDeviceGetPersistenceMode,        (Device device, int* mode)) \
  X(nvmlDeviceGetEccMode,                (Device device, int* current, int* pending)) \
  X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (Device instance, Device* device)) \
  X(nvmlDeviceIsMigDeviceHandle,         (Device device, unsigned* is_instance)) \
  X(nvmlDeviceGetAttributes_v2,          (Device device, DeviceAttributes* attributes)) \
  X(nvmlDeviceGetSerial,                 (Device device, char* serial, unsigned bytes)) \
  X(nvmlDeviceGetBAR1MemoryInfo,         (Device device, Bar1Memory* memory)) \
  X(nvmlDeviceGetEncoderUtilization,     (Device device, unsigned* percent, unsigned* period_us)) \
  X(nvmlDeviceGetDecoderUtilization,     (Device device, unsigned* percent, unsigned* period_us)) \
  X(nvmlDeviceGetTemperature,            (Device device, int sensor, unsigned* celsius)) \
  X(nvmlDeviceGetFanSpeed,               (Device device, unsigned* percent)) \
  X(nvmlDeviceGetPowerUsage,             (Device device, unsigned* milliwatts)) \
  X(nvmlDeviceGetEnforcedPowerLimit,     (Device device, unsigned* milliwatts)) \
  X(nvmlDeviceGetPowerManagementLimit,   (Device device, unsigned* milliwatts)) \
  X(nvmlDeviceGetTotalEnergyConsumption, (Device device, unsigned long long* millijoules)) \
  X(nvmlDeviceGetClockInfo,              (Device device, int clock, unsigned* megahertz)) \
  X(nvmlDeviceGetMaxClockInfo,           (Device device, int clock, unsigned* megahertz)) \
  X(nvmlDeviceGetPerformanceState,       (Device device, int* state)) \
  X(nvmlDeviceGetNumaNodeId,             (Device device, unsigned* node)) \
  X(nvmlDeviceGetPciInfo,                (Device device, PciInfoV1* pci)) \
  X(nvmlDeviceGetPciInfo_v2,             (Device device, PciInfoV2* pci)) \
  X(nvmlDeviceGetDisplayMode,            (Device device, int* connected)) \
  X(nvmlDeviceGetDisplayActive,          (Device device, int* active)) \
  X(nvmlDeviceGetMaxPcieLinkGeneration,  (Device device, unsigned* generation)) \
  X(nvmlDeviceGetGpuMaxPcieLinkGeneration, (Device device, unsigned* generation)) \
  X(nvmlDeviceGetCurrPcieLinkGeneration, (Device device, unsigned* generation)) \
  X(nvmlDeviceGetMaxPcieLinkWidth,       (Device device, unsigned* lanes)) \
  X(nvmlDeviceGetCurrPcieLinkWidth,      (Device device, unsigned* lanes)) \
  X(nvmlDeviceGetPcieThroughput,         (Device device, int counter, unsigned* kilobytes)) \
  X(nvmlDeviceGetPcieReplayCounter,      (Device device, unsigned* replays)) \
  X(nvmlDeviceGetTemperatureThreshold,   (Device device, int threshold, unsigned* celsius)) \
  X(nvmlDeviceGetMemoryAffinity, \
    (Device device, unsigned words, unsigned long* nodes, unsigned scope)) \
  X(nvmlDeviceGetCpuAffinity,            (Device device, unsigned words, unsigned long* cpus)) \
  X(nvmlDeviceGetNvLinkState,            (Device device, unsigned link, int* active)) \
  X(nvmlDeviceGetGpuFabricInfoV,         (Device device, GpuFabricInfo* info))

// X(older name, symbol): other names of a function, whose older ABI is the same.
#define BERTH_SIM_NVML_OLDER_NAMES(X) \
  X(nvmlInit,                                nvmlInit_v2) \
  X(nvmlSystemGetCudaDriverVersion,          nvmlSystemGetCudaDriverVersion_v2) \
  X(nvmlDeviceGetCount,                      nvmlDeviceGetCount_v2) \
  X(nvmlDeviceGetHandleByIndex,              nvmlDeviceGetHandleByIndex_v2) \
  X(nvmlDeviceGetHandleByPciBusId,           nvmlDeviceGetHandleByPciBusId_v2) \
  X(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3) \
  X(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3) \
  X(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetMPSComputeRunningProcesses_v3)
// clang-format on

// Inside NVML's namespace, so that the list above need not repeat it.
namespace berth::nvml::function_types {
#define BERTH_SIM_NVML_TYPE(symbol, parameters) using symbol = Return parameters;
BERTH_SIM_NVML_FUNCTIONS(BERTH_SIM_NVML_TYPE)
#undef BERTH_SIM_NVML_TYPE
}  // namespace berth::nvml::function_types

namespace berth::sim {

extern "C" {
#define BERTH_SIM_DECLARE_NVML(member, symbol, type, need) BERTH_API nvml::type berth_sim_##symbol;
BERTH_NVML_FUNCTIONS(BERTH_SIM_DECLARE_NVML)
#undef BERTH_SIM_DECLARE_NVML

#define BERTH_SIM_DECLARE_NVML(symbol, parameters) \
  BERTH_API nvml::function_types::symbol berth_sim_##symbol;
BERTH_SIM_NVML_FUNCTIONS(BERTH_SIM_DECLARE_NVML)
#undef BERTH_SIM_DECLARE_NVML

// The only one that returns no code.
BERTH_API const char* berth_sim_nvmlErrorString(nvml::Return code);
}

}  // namespace berth::sim
