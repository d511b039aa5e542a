// SPDX-License-Identifier: Apache-2.0
// Displays, the link to the host, fabrics, and temperature thresholds: an H100 with PCIe 5.0,
// without displays, bus traffic and a fabric.
// Source: NVML API Reference Guide, "Device Queries".
#include <cstring>
#include <iterator>

#include "sim/nvml/nvml_call.hpp"
#include "sim/nvml/unsupported.hpp"

namespace berth::sim {
namespace {

constexpr unsigned kPcieGeneration = 5;
constexpr unsigned kPcieLanes = 16;

/// In the order of nvmlTemperatureThresholds_t.
constexpr unsigned kThresholds[] = {92, 89, 95, 87};  // shutdown, slowdown, memory, GPU
constexpr int kThresholdKinds = 8;

template <class T>
nvml::Return tell(nvml::Device device, T* out, T value) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (call.find_gpu(device) == nullptr || out == nullptr) return nvml::kInvalidArgument;
  *out = value;
  return nvml::kSuccess;
}

}  // namespace

nvml::Return berth_sim_nvmlDeviceGetDisplayMode(nvml::Device device, int* connected) {
  return tell(device, connected, 0);
}

nvml::Return berth_sim_nvmlDeviceGetDisplayActive(nvml::Device device, int* active) {
  return tell(device, active, 0);
}

nvml::Return berth_sim_nvmlDeviceGetMaxPcieLinkGeneration(nvml::Device device,
                                                          unsigned* generation) {
  return tell(device, generation, kPcieGeneration);
}

nvml::Return berth_sim_nvmlDeviceGetGpuMaxPcieLinkGeneration(nvml::Device device,
                                                             unsigned* generation) {
  return tell(device, generation, kPcieGeneration);
}

nvml::Return berth_sim_nvmlDeviceGetCurrPcieLinkGeneration(nvml::Device device,
                                                           unsigned* generation) {
  return tell(device, generation, kPcieGeneration);
}

nvml::Return berth_sim_nvmlDeviceGetMaxPcieLinkWidth(nvml::Device device, unsigned* lanes) {
  return tell(device, lanes, kPcieLanes);
}

nvml::Return berth_sim_nvmlDeviceGetCurrPcieLinkWidth(nvml::Device device, unsigned* lanes) {
  return tell(device, lanes, kPcieLanes);
}

nvml::Return berth_sim_nvmlDeviceGetPcieThroughput(nvml::Device device, int counter,
                                                   unsigned* kilobytes) {
  constexpr int kCounters = 2;  // sent, received
  const bool is_counter = counter >= 0 && counter < kCounters;
  return tell(device, is_counter ? kilobytes : nullptr, 0U);
}

nvml::Return berth_sim_nvmlDeviceGetPcieReplayCounter(nvml::Device device, unsigned* replays) {
  return tell(device, replays, 0U);
}

nvml::Return berth_sim_nvmlDeviceGetTemperatureThreshold(nvml::Device device, int threshold,
                                                         unsigned* celsius) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const bool is_kind = threshold >= 0 && threshold < kThresholdKinds;
  if (call.find_gpu(device) == nullptr || celsius == nullptr || !is_kind)
    return nvml::kInvalidArgument;
  if (threshold >= static_cast<int>(std::size(kThresholds))) return nvml::kNotSupported;
  *celsius = kThresholds[threshold];
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvml_unsupported() {
  const NvmlCall call;
  return call.refusal() != nvml::kSuccess ? call.refusal() : nvml::kNotSupported;
}

nvml::Return berth_sim_nvmlDeviceGetGpuFabricInfoV(nvml::Device device, nvml::GpuFabricInfo* info) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (call.find_gpu(device) == nullptr || info == nullptr) return nvml::kInvalidArgument;
  const unsigned version = info->version;
  if (version != nvml::kGpuFabricInfoV2Version && version != nvml::kGpuFabricInfoV3Version)
    return nvml::kArgumentVersionMismatch;
  constexpr unsigned size = 0xffffff;  // the struct of an older version is shorter
  std::memset(info, 0, version & size);
  info->version = version;
  info->state = nvml::kFabricNotSupported;
  return nvml::kSuccess;
}

}  // namespace berth::sim
