// SPDX-License-Identifier: Apache-2.0
// How the fuzzer calls NVML: a row for each function in sim/nvml/functions.hpp.
#pragma once

#include "fuzz/call.hpp"
#include "fuzz/other_parameters.hpp"

namespace berth::fuzz {

inline constexpr Handle gpu = handle(Kind::gpu);
inline constexpr Out gpu_out = made(Kind::gpu);
inline constexpr Number index = number(0, 1, 2, 6, 7);

/// The version that tells a structure's layout, in front of it.
struct Versioned {
  unsigned version;
  [[nodiscard]] Result draw(Turn& turn) const {
    Result drawn(turn);
    drawn.set(turn.bytes.byte() < kHostile ? version : 0U);
    return drawn;
  }
};

// clang-format off
BERTH_FUZZ(nvmlInit_v2)
BERTH_FUZZ(nvmlInitWithFlags, number(0, 1, 2, 4))
BERTH_FUZZ(nvmlShutdown)
BERTH_FUZZ(nvmlErrorString, below(1024))
BERTH_FUZZ(nvmlSystemGetDriverVersion, text_out, capacity)
BERTH_FUZZ(nvmlSystemGetNVMLVersion, text_out, capacity)
BERTH_FUZZ(nvmlSystemGetCudaDriverVersion_v2, out)
BERTH_FUZZ(nvmlSystemGetProcessName, number(1, 0), text_out, capacity)

// Handles.
BERTH_FUZZ(nvmlDeviceGetCount_v2, out)
BERTH_FUZZ(nvmlDeviceGetHandleByIndex_v2, index, gpu_out)
BERTH_FUZZ(nvmlDeviceGetHandleByUUID, text_in, gpu_out)
BERTH_FUZZ(nvmlDeviceGetHandleByPciBusId_v2, text_in, gpu_out)
BERTH_FUZZ(nvmlDeviceGetHandleBySerial, text_in, gpu_out)
BERTH_FUZZ(nvmlDeviceGetUUID, gpu, text_out, capacity)
BERTH_FUZZ(nvmlDeviceGetName, gpu, text_out, capacity)
BERTH_FUZZ(nvmlDeviceGetIndex, gpu, out)
BERTH_FUZZ(nvmlDeviceGetMinorNumber, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPciInfo_v3, gpu, out)

// Memory and processes.
BERTH_FUZZ(nvmlDeviceGetMemoryInfo, gpu, out)
BERTH_FUZZ(nvmlDeviceGetMemoryInfo_v2, gpu, Versioned{nvml::kMemoryV2Version})
BERTH_FUZZ(nvmlDeviceGetGpuFabricInfoV, gpu, Versioned{nvml::kGpuFabricInfoV2Version})
BERTH_FUZZ(nvmlDeviceGetComputeRunningProcesses, gpu, length<unsigned>, array_out)
BERTH_FUZZ(nvmlDeviceGetGraphicsRunningProcesses, gpu, length<unsigned>, array_out)
BERTH_FUZZ(nvmlDeviceGetMPSComputeRunningProcesses, gpu, length<unsigned>, array_out)
BERTH_FUZZ(nvmlDeviceGetComputeRunningProcesses_v3, gpu, length<unsigned>, array_out)
BERTH_FUZZ(nvmlDeviceGetGraphicsRunningProcesses_v3, gpu, length<unsigned>, array_out)
BERTH_FUZZ(nvmlDeviceGetMPSComputeRunningProcesses_v3, gpu, length<unsigned>, array_out)

// What a device is.
BERTH_FUZZ(nvmlDeviceGetCudaComputeCapability, gpu, out, out)
BERTH_FUZZ(nvmlDeviceGetComputeMode, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPersistenceMode, gpu, out)
BERTH_FUZZ(nvmlDeviceGetEccMode, gpu, out, out)
BERTH_FUZZ(nvmlDeviceGetTopologyCommonAncestor, gpu, gpu, out)
BERTH_FUZZ(nvmlDeviceGetP2PStatus, gpu, gpu, enumerator(0, 1, 2, 3, 4, 5, -1), out)

// MIG.
BERTH_FUZZ(nvmlDeviceGetMigMode, gpu, out, out)
BERTH_FUZZ(nvmlDeviceGetMaxMigDeviceCount, gpu, out)
BERTH_FUZZ(nvmlDeviceGetMigDeviceHandleByIndex, gpu, index, gpu_out)
BERTH_FUZZ(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, gpu, gpu_out)
BERTH_FUZZ(nvmlDeviceIsMigDeviceHandle, gpu, out)
BERTH_FUZZ(nvmlDeviceGetGpuInstanceId, gpu, out)
BERTH_FUZZ(nvmlDeviceGetComputeInstanceId, gpu, out)
BERTH_FUZZ(nvmlDeviceGetAttributes_v2, gpu, out)

// What the simulator does not know.
BERTH_FUZZ(nvmlDeviceGetSerial, gpu, text_out, capacity)
BERTH_FUZZ(nvmlDeviceGetBAR1MemoryInfo, gpu, out)
BERTH_FUZZ(nvmlDeviceGetUtilizationRates, gpu, out)
BERTH_FUZZ(nvmlDeviceGetEncoderUtilization, gpu, out, out)
BERTH_FUZZ(nvmlDeviceGetDecoderUtilization, gpu, out, out)
BERTH_FUZZ(nvmlDeviceGetTemperature, gpu, number(0, 1), out)
BERTH_FUZZ(nvmlDeviceGetFanSpeed, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPowerUsage, gpu, out)
BERTH_FUZZ(nvmlDeviceGetEnforcedPowerLimit, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPowerManagementLimit, gpu, out)
BERTH_FUZZ(nvmlDeviceGetTotalEnergyConsumption, gpu, out)
BERTH_FUZZ(nvmlDeviceGetClockInfo, gpu, number(0, 1), out)
BERTH_FUZZ(nvmlDeviceGetMaxClockInfo, gpu, number(0, 1), out)
BERTH_FUZZ(nvmlDeviceGetPerformanceState, gpu, out)
BERTH_FUZZ(nvmlDeviceGetNumaNodeId, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPciInfo, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPciInfo_v2, gpu, out)
BERTH_FUZZ(nvmlDeviceGetDisplayMode, gpu, out)
BERTH_FUZZ(nvmlDeviceGetDisplayActive, gpu, out)
BERTH_FUZZ(nvmlDeviceGetMaxPcieLinkGeneration, gpu, out)
BERTH_FUZZ(nvmlDeviceGetGpuMaxPcieLinkGeneration, gpu, out)
BERTH_FUZZ(nvmlDeviceGetCurrPcieLinkGeneration, gpu, out)
BERTH_FUZZ(nvmlDeviceGetMaxPcieLinkWidth, gpu, out)
BERTH_FUZZ(nvmlDeviceGetCurrPcieLinkWidth, gpu, out)
BERTH_FUZZ(nvmlDeviceGetPcieThroughput, gpu, number(0, 1, 2, -1), out)
BERTH_FUZZ(nvmlDeviceGetPcieReplayCounter, gpu, out)
BERTH_FUZZ(nvmlDeviceGetTemperatureThreshold, gpu, number(0, 1, 3, 4, 7, 8, -1), out)
BERTH_FUZZ(nvmlDeviceGetMemoryAffinity, gpu, number(1), array_out, number(0, 1))
BERTH_FUZZ(nvmlDeviceGetCpuAffinity, gpu, number(1), array_out)
BERTH_FUZZ(nvmlDeviceGetNvLinkState, gpu, number(0, 1), out)

// clang-format on
}  // namespace berth::fuzz
