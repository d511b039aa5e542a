// SPDX-License-Identifier: Apache-2.0
// NVML functions without simulation: X(symbol). One function serves for all of them, and returns
// the error of a device without the feature, because some programs look up all their functions
// first and stop if one is missing. Its parameters are not read.
// Source: NVML API Reference Guide.
#pragma once

#include "berth/export.h"

#include "driver/nvml_abi.hpp"

// clang-format off
#define BERTH_SIM_NVML_UNSUPPORTED_OF_SYSTEMS(X) \
  X(nvmlUnitGetCount) X(nvmlUnitGetHandleByIndex) X(nvmlUnitGetUnitInfo) X(nvmlUnitGetLedState) \
  X(nvmlUnitGetPsuInfo) X(nvmlUnitGetTemperature) X(nvmlUnitGetFanSpeedInfo) \
  X(nvmlUnitGetDevices) X(nvmlUnitSetLedState) X(nvmlSystemGetHicVersion) \
  X(nvmlSystemGetTopologyGpuSet) X(nvmlSystemGetDriverBranch) \
  X(nvmlSystemGetConfComputeCapabilities) X(nvmlSystemGetConfComputeState) \
  X(nvmlSystemGetConfComputeGpusReadyState) X(nvmlSystemSetConfComputeGpusReadyState) \
  X(nvmlSystemGetConfComputeSettings) X(nvmlSystemSetConfComputeKeyRotationThresholdInfo) \
  X(nvmlSystemGetConfComputeKeyRotationThresholdInfo) X(nvmlSystemSetNvlinkBwMode) \
  X(nvmlSystemGetNvlinkBwMode) X(nvmlSystemEventSetCreate) X(nvmlSystemEventSetFree) \
  X(nvmlSystemRegisterEvents) X(nvmlSystemEventSetWait) X(nvmlEventSetCreate) X(nvmlEventSetFree) \
  X(nvmlEventSetWait) X(nvmlEventSetWait_v2) X(nvmlGetExcludedDeviceCount) \
  X(nvmlGetExcludedDeviceInfoByIndex) X(nvmlGetBlacklistDeviceCount) \
  X(nvmlGetBlacklistDeviceInfoByIndex) X(nvmlSetVgpuVersion) X(nvmlGetVgpuVersion) \
  X(nvmlGetVgpuCompatibility) X(nvmlGetVgpuDriverCapabilities)

#define BERTH_SIM_NVML_UNSUPPORTED_OF_DEVICES(X) \
  X(nvmlDeviceGetAPIRestriction) X(nvmlDeviceSetAPIRestriction) \
  X(nvmlDeviceGetAccountingBufferSize) X(nvmlDeviceGetAccountingMode) \
  X(nvmlDeviceGetAccountingPids) X(nvmlDeviceGetAccountingStats) X(nvmlDeviceSetAccountingMode) \
  X(nvmlDeviceClearAccountingPids) X(nvmlDeviceGetActiveVgpus) \
  X(nvmlDeviceGetAdaptiveClockInfoStatus) \
  X(nvmlDeviceGetAddressingMode) X(nvmlDeviceGetApplicationsClock) \
  X(nvmlDeviceSetApplicationsClocks) X(nvmlDeviceResetApplicationsClocks) \
  X(nvmlDeviceGetArchitecture) X(nvmlDeviceGetAttributes) X(nvmlDeviceGetAutoBoostedClocksEnabled) \
  X(nvmlDeviceSetAutoBoostedClocksEnabled) X(nvmlDeviceSetDefaultAutoBoostedClocksEnabled) \
  X(nvmlDeviceGetBoardId) X(nvmlDeviceGetBoardPartNumber) X(nvmlDeviceGetBrand) \
  X(nvmlDeviceGetBridgeChipInfo) X(nvmlDeviceGetBusType) X(nvmlDeviceGetC2cModeInfoV) \
  X(nvmlDeviceGetCapabilities) X(nvmlDeviceGetClkMonStatus) X(nvmlDeviceGetClock) \
  X(nvmlDeviceGetClockOffsets) X(nvmlDeviceSetClockOffsets) X(nvmlDeviceGetComputeInstanceId_v2) \
  X(nvmlDeviceSetComputeMode) \
  X(nvmlDeviceGetConfComputeGpuAttestationReport) X(nvmlDeviceGetConfComputeGpuCertificate) \
  X(nvmlDeviceGetConfComputeMemSizeInfo) X(nvmlDeviceSetConfComputeUnprotectedMemSize) \
  X(nvmlDeviceGetConfComputeProtectedMemoryUsage) X(nvmlDeviceGetCoolerInfo) \
  X(nvmlDeviceGetCpuAffinityWithinScope) X(nvmlDeviceSetCpuAffinity) X(nvmlDeviceClearCpuAffinity) \
  X(nvmlDeviceGetCreatableVgpus) X(nvmlDeviceGetCurrentClockFreqs) \
  X(nvmlDeviceGetCurrentClocksEventReasons) X(nvmlDeviceGetCurrentClocksThrottleReasons) \
  X(nvmlDeviceGetDefaultApplicationsClock) X(nvmlDeviceGetDefaultEccMode) \
  X(nvmlDeviceGetDetailedEccErrors) X(nvmlDeviceGetDramEncryptionMode) \
  X(nvmlDeviceSetDramEncryptionMode) X(nvmlDeviceGetDriverModel) X(nvmlDeviceGetDriverModel_v2) \
  X(nvmlDeviceSetDriverModel) X(nvmlDeviceGetDynamicPstatesInfo) X(nvmlDeviceSetEccMode) \
  X(nvmlDeviceClearEccErrorCounts) X(nvmlDeviceGetEncoderCapacity) X(nvmlDeviceGetEncoderSessions) \
  X(nvmlDeviceGetEncoderStats) X(nvmlDeviceGetFBCSessions) X(nvmlDeviceGetFBCStats) \
  X(nvmlDeviceGetFanControlPolicy_v2) X(nvmlDeviceGetFanSpeed_v2) X(nvmlDeviceGetFanSpeedRPM) \
  X(nvmlDeviceSetFanControlPolicy) X(nvmlDeviceSetFanSpeed_v2) X(nvmlDeviceSetDefaultFanSpeed_v2) \
  X(nvmlDeviceGetFieldValues) X(nvmlDeviceClearFieldValues) X(nvmlDeviceGetGpcClkMinMaxVfOffset) \
  X(nvmlDeviceGetGpcClkVfOffset) X(nvmlDeviceSetGpcClkVfOffset) X(nvmlDeviceGetGpuFabricInfo) \
  X(nvmlDeviceGetGpuOperationMode) \
  X(nvmlDeviceSetGpuOperationMode) X(nvmlDeviceSetGpuLockedClocks) \
  X(nvmlDeviceResetGpuLockedClocks) X(nvmlDeviceSetMemoryLockedClocks) \
  X(nvmlDeviceResetMemoryLockedClocks) \
  X(nvmlDeviceGetGridLicensableFeatures) X(nvmlDeviceGetGridLicensableFeatures_v2) \
  X(nvmlDeviceGetGridLicensableFeatures_v3) X(nvmlDeviceGetGridLicensableFeatures_v4) \
  X(nvmlDeviceGetGspFirmwareMode) X(nvmlDeviceGetGspFirmwareVersion) \
  X(nvmlDeviceGetHandleByUUIDV) X(nvmlDeviceGetHostVgpuMode) \
  X(nvmlDeviceGetInforomConfigurationChecksum) X(nvmlDeviceGetInforomImageVersion) \
  X(nvmlDeviceGetInforomVersion) X(nvmlDeviceValidateInforom) X(nvmlDeviceGetIrqNum) \
  X(nvmlDeviceGetJpgUtilization) X(nvmlDeviceGetLastBBXFlushTime) \
  X(nvmlDeviceGetMarginTemperature) \
  X(nvmlDeviceGetMaxCustomerBoostClock) X(nvmlDeviceGetMemClkMinMaxVfOffset) \
  X(nvmlDeviceGetMemClkVfOffset) X(nvmlDeviceSetMemClkVfOffset) X(nvmlDeviceGetMemoryBusWidth) \
  X(nvmlDeviceGetMemoryErrorCounter) X(nvmlDeviceGetMinMaxClockOfPState) \
  X(nvmlDeviceGetMinMaxFanSpeed) X(nvmlDeviceGetModuleId) X(nvmlDeviceGetMultiGpuBoard) \
  X(nvmlDeviceGetNumFans) X(nvmlDeviceGetNumGpuCores) X(nvmlDeviceGetOfaUtilization) \
  X(nvmlDeviceGetP2PLinkStatus) X(nvmlDeviceGetPciInfoExt) X(nvmlDeviceGetPcieLinkMaxSpeed) \
  X(nvmlDeviceGetPcieSpeed) X(nvmlDeviceGetPdi) X(nvmlDeviceGetPerformanceModes) \
  X(nvmlDeviceGetPlatformInfo) X(nvmlDeviceSetPersistenceMode) \
  X(nvmlDeviceGetPgpuMetadataString) X(nvmlDeviceGetPowerManagementDefaultLimit) \
  X(nvmlDeviceGetPowerManagementLimitConstraints) X(nvmlDeviceGetPowerManagementMode) \
  X(nvmlDeviceGetPowerMizerMode_v1) X(nvmlDeviceSetPowerMizerMode_v1) X(nvmlDeviceGetPowerSource) \
  X(nvmlDeviceGetPowerState) X(nvmlDeviceSetPowerManagementLimit) \
  X(nvmlDeviceSetPowerManagementLimit_v2) X(nvmlDeviceGetProcessUtilization) \
  X(nvmlDeviceGetProcessesUtilizationInfo) X(nvmlDeviceGetRemappedRows) \
  X(nvmlDeviceGetRepairStatus) X(nvmlDeviceGetRetiredPages) X(nvmlDeviceGetRetiredPages_v2) \
  X(nvmlDeviceGetRetiredPagesPendingStatus) X(nvmlDeviceGetRowRemapperHistogram) \
  X(nvmlDeviceGetRunningProcessDetailList) X(nvmlDeviceGetSamples) \
  X(nvmlDeviceGetSramEccErrorStatus) \
  X(nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts) \
  X(nvmlDeviceGetSupportedClocksEventReasons) X(nvmlDeviceGetSupportedClocksThrottleReasons) \
  X(nvmlDeviceGetSupportedEventTypes) X(nvmlDeviceRegisterEvents) \
  X(nvmlDeviceGetSupportedGraphicsClocks) X(nvmlDeviceGetSupportedMemoryClocks) \
  X(nvmlDeviceGetSupportedPerformanceStates) X(nvmlDeviceGetSupportedVgpus) \
  X(nvmlDeviceGetTargetFanSpeed) X(nvmlDeviceGetTemperatureV) X(nvmlDeviceGetThermalSettings) \
  X(nvmlDeviceSetTemperatureThreshold) X(nvmlDeviceGetTopologyNearestGpus) \
  X(nvmlDeviceGetTotalEccErrors) X(nvmlDeviceGetVbiosVersion) X(nvmlDeviceGetViolationStatus) \
  X(nvmlDeviceGetVirtualizationMode) X(nvmlDeviceSetVirtualizationMode) X(nvmlDeviceOnSameBoard) \
  X(nvmlDeviceModifyDrainState) X(nvmlDeviceQueryDrainState) X(nvmlDeviceRemoveGpu) \
  X(nvmlDeviceRemoveGpu_v2) X(nvmlDeviceDiscoverGpus) X(nvmlDeviceSetMigMode) \
  X(nvmlDeviceReadWritePRM_v1) X(nvmlDeviceSetHostname_v1) X(nvmlDeviceGetHostname_v1) \
  X(nvmlDeviceWorkloadPowerProfileGetProfilesInfo) \
  X(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles) \
  X(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles) \
  X(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles) \
  X(nvmlDevicePowerSmoothingActivatePresetProfile) \
  X(nvmlDevicePowerSmoothingUpdatePresetProfileParam) X(nvmlDevicePowerSmoothingSetState)

#define BERTH_SIM_NVML_UNSUPPORTED_OF_LINKS(X) \
  X(nvmlDeviceGetNvLinkVersion) X(nvmlDeviceGetNvLinkCapability) \
  X(nvmlDeviceGetNvLinkRemoteDeviceType) X(nvmlDeviceGetNvLinkRemotePciInfo) \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2) X(nvmlDeviceGetNvLinkErrorCounter) \
  X(nvmlDeviceResetNvLinkErrorCounters) X(nvmlDeviceSetNvLinkUtilizationControl) \
  X(nvmlDeviceGetNvLinkUtilizationControl) X(nvmlDeviceGetNvLinkUtilizationCounter) \
  X(nvmlDeviceFreezeNvLinkUtilizationCounter) X(nvmlDeviceResetNvLinkUtilizationCounter) \
  X(nvmlDeviceGetNvLinkInfo) X(nvmlDeviceSetNvLinkDeviceLowPowerThreshold) \
  X(nvmlDeviceGetNvlinkSupportedBwModes) X(nvmlDeviceGetNvlinkBwMode) \
  X(nvmlDeviceSetNvlinkBwMode)

#define BERTH_SIM_NVML_UNSUPPORTED_OF_INSTANCES(X) \
  X(nvmlDeviceGetGpuInstanceProfileInfo) X(nvmlDeviceGetGpuInstanceProfileInfoV) \
  X(nvmlDeviceGetGpuInstanceProfileInfoByIdV) X(nvmlDeviceGetGpuInstancePossiblePlacements) \
  X(nvmlDeviceGetGpuInstancePossiblePlacements_v2) X(nvmlDeviceGetGpuInstanceRemainingCapacity) \
  X(nvmlDeviceCreateGpuInstance) X(nvmlDeviceCreateGpuInstanceWithPlacement) \
  X(nvmlGpuInstanceDestroy) X(nvmlDeviceGetGpuInstances) X(nvmlDeviceGetGpuInstanceById) \
  X(nvmlGpuInstanceGetInfo) X(nvmlGpuInstanceGetComputeInstanceProfileInfo) \
  X(nvmlGpuInstanceGetComputeInstanceProfileInfoV) \
  X(nvmlGpuInstanceGetComputeInstanceRemainingCapacity) \
  X(nvmlGpuInstanceGetComputeInstancePossiblePlacements) X(nvmlGpuInstanceCreateComputeInstance) \
  X(nvmlGpuInstanceCreateComputeInstanceWithPlacement) X(nvmlComputeInstanceDestroy) \
  X(nvmlGpuInstanceGetComputeInstances) X(nvmlGpuInstanceGetComputeInstanceById) \
  X(nvmlComputeInstanceGetInfo) X(nvmlComputeInstanceGetInfo_v2) \
  X(nvmlGpuInstanceGetCreatableVgpus) X(nvmlGpuInstanceGetActiveVgpus) \
  X(nvmlGpuInstanceGetVgpuSchedulerState) X(nvmlGpuInstanceSetVgpuSchedulerState) \
  X(nvmlGpuInstanceGetVgpuSchedulerLog) X(nvmlGpuInstanceGetVgpuTypeCreatablePlacements) \
  X(nvmlGpuInstanceGetVgpuHeterogeneousMode) X(nvmlGpuInstanceSetVgpuHeterogeneousMode) \
  X(nvmlGpmMetricsGet) X(nvmlGpmSampleFree) X(nvmlGpmSampleAlloc) X(nvmlGpmSampleGet) \
  X(nvmlGpmMigSampleGet) X(nvmlGpmQueryDeviceSupport) X(nvmlGpmQueryIfStreamingEnabled) \
  X(nvmlGpmSetStreamingEnabled)

#define BERTH_SIM_NVML_UNSUPPORTED_OF_VGPUS(X) \
  X(nvmlDeviceGetVgpuCapabilities) X(nvmlDeviceSetVgpuCapabilities) \
  X(nvmlDeviceGetVgpuHeterogeneousMode) X(nvmlDeviceSetVgpuHeterogeneousMode) \
  X(nvmlDeviceGetVgpuInstancesUtilizationInfo) X(nvmlDeviceGetVgpuMetadata) \
  X(nvmlDeviceGetVgpuProcessUtilization) X(nvmlDeviceGetVgpuProcessesUtilizationInfo) \
  X(nvmlDeviceGetVgpuSchedulerCapabilities) X(nvmlDeviceGetVgpuSchedulerLog) \
  X(nvmlDeviceGetVgpuSchedulerState) X(nvmlDeviceSetVgpuSchedulerState) \
  X(nvmlDeviceGetVgpuTypeCreatablePlacements) X(nvmlDeviceGetVgpuTypeSupportedPlacements) \
  X(nvmlDeviceGetVgpuUtilization) X(nvmlVgpuInstanceClearAccountingPids) \
  X(nvmlVgpuInstanceGetAccountingMode) X(nvmlVgpuInstanceGetAccountingPids) \
  X(nvmlVgpuInstanceGetAccountingStats) X(nvmlVgpuInstanceGetEccMode) \
  X(nvmlVgpuInstanceGetEncoderCapacity) X(nvmlVgpuInstanceSetEncoderCapacity) \
  X(nvmlVgpuInstanceGetEncoderSessions) X(nvmlVgpuInstanceGetEncoderStats) \
  X(nvmlVgpuInstanceGetFBCSessions) X(nvmlVgpuInstanceGetFBCStats) X(nvmlVgpuInstanceGetFbUsage) \
  X(nvmlVgpuInstanceGetFrameRateLimit) X(nvmlVgpuInstanceGetGpuInstanceId) \
  X(nvmlVgpuInstanceGetGpuPciId) X(nvmlVgpuInstanceGetLicenseInfo) \
  X(nvmlVgpuInstanceGetLicenseInfo_v2) X(nvmlVgpuInstanceGetLicenseStatus) \
  X(nvmlVgpuInstanceGetMdevUUID) X(nvmlVgpuInstanceGetMetadata) \
  X(nvmlVgpuInstanceGetPlacementId) X(nvmlVgpuInstanceGetRuntimeStateSize) \
  X(nvmlVgpuInstanceGetType) X(nvmlVgpuInstanceGetUUID) X(nvmlVgpuInstanceGetVmDriverVersion) \
  X(nvmlVgpuInstanceGetVmID) X(nvmlVgpuTypeGetBAR1Info) X(nvmlVgpuTypeGetCapabilities) \
  X(nvmlVgpuTypeGetClass) X(nvmlVgpuTypeGetDeviceID) X(nvmlVgpuTypeGetFbReservation) \
  X(nvmlVgpuTypeGetFrameRateLimit) X(nvmlVgpuTypeGetFramebufferSize) \
  X(nvmlVgpuTypeGetGpuInstanceProfileId) X(nvmlVgpuTypeGetGspHeapSize) X(nvmlVgpuTypeGetLicense) \
  X(nvmlVgpuTypeGetMaxInstances) X(nvmlVgpuTypeGetMaxInstancesPerGpuInstance) \
  X(nvmlVgpuTypeGetMaxInstancesPerVm) X(nvmlVgpuTypeGetName) X(nvmlVgpuTypeGetNumDisplayHeads) \
  X(nvmlVgpuTypeGetResolution)

#define BERTH_SIM_NVML_UNSUPPORTED(X) \
  BERTH_SIM_NVML_UNSUPPORTED_OF_SYSTEMS(X) \
  BERTH_SIM_NVML_UNSUPPORTED_OF_DEVICES(X) \
  BERTH_SIM_NVML_UNSUPPORTED_OF_LINKS(X) \
  BERTH_SIM_NVML_UNSUPPORTED_OF_INSTANCES(X) \
  BERTH_SIM_NVML_UNSUPPORTED_OF_VGPUS(X)
// clang-format on

namespace berth::sim {

/// The function of all these names: NVML_ERROR_NOT_SUPPORTED once NVML is initialized.
extern "C" BERTH_API nvml::Return berth_sim_nvml_unsupported();

}  // namespace berth::sim
