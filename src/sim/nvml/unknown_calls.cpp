// SPDX-License-Identifier: Apache-2.0
// Values that are not simulated: heat, power, clocks, load, and the machine around the devices.
// Monitoring programs need these functions to exist, and show their result, "not supported", as
// unknown.
// Source: NVML API Reference Guide, "Device Queries".
#include "sim/nvml/nvml_call.hpp"

namespace berth::sim {
namespace {

nvml::Return unknown(nvml::Device device, const void* result) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (call.find(device) == nullptr || result == nullptr) return nvml::kInvalidArgument;
  return nvml::kNotSupported;
}

}  // namespace

nvml::Return berth_sim_nvmlDeviceGetSerial(nvml::Device device, char* serial, unsigned) {
  return unknown(device, serial);
}

nvml::Return berth_sim_nvmlDeviceGetBAR1MemoryInfo(nvml::Device device, nvml::Bar1Memory* memory) {
  return unknown(device, memory);
}

nvml::Return berth_sim_nvmlDeviceGetUtilizationRates(nvml::Device device,
                                                     nvml::Utilization* percent) {
  return unknown(device, percent);
}

nvml::Return berth_sim_nvmlDeviceGetEncoderUtilization(nvml::Device device, unsigned* percent,
                                                       unsigned*) {
  return unknown(device, percent);
}

nvml::Return berth_sim_nvmlDeviceGetDecoderUtilization(nvml::Device device, unsigned* percent,
                                                       unsigned*) {
  return unknown(device, percent);
}

nvml::Return berth_sim_nvmlDeviceGetTemperature(nvml::Device device, int, unsigned* celsius) {
  return unknown(device, celsius);
}

nvml::Return berth_sim_nvmlDeviceGetFanSpeed(nvml::Device device, unsigned* percent) {
  return unknown(device, percent);
}

nvml::Return berth_sim_nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* milliwatts) {
  return unknown(device, milliwatts);
}

nvml::Return berth_sim_nvmlDeviceGetEnforcedPowerLimit(nvml::Device device, unsigned* milliwatts) {
  return unknown(device, milliwatts);
}

nvml::Return berth_sim_nvmlDeviceGetPowerManagementLimit(nvml::Device device,
                                                         unsigned* milliwatts) {
  return unknown(device, milliwatts);
}

nvml::Return berth_sim_nvmlDeviceGetTotalEnergyConsumption(nvml::Device device,
                                                           unsigned long long* millijoules) {
  return unknown(device, millijoules);
}

nvml::Return berth_sim_nvmlDeviceGetClockInfo(nvml::Device device, int, unsigned* megahertz) {
  return unknown(device, megahertz);
}

nvml::Return berth_sim_nvmlDeviceGetMaxClockInfo(nvml::Device device, int, unsigned* megahertz) {
  return unknown(device, megahertz);
}

nvml::Return berth_sim_nvmlDeviceGetPerformanceState(nvml::Device device, int* state) {
  return unknown(device, state);
}

nvml::Return berth_sim_nvmlDeviceGetNumaNodeId(nvml::Device device, unsigned* node) {
  return unknown(device, node);
}

nvml::Return berth_sim_nvmlDeviceGetMemoryAffinity(nvml::Device device, unsigned,
                                                   unsigned long* nodes, unsigned) {
  return unknown(device, nodes);
}

nvml::Return berth_sim_nvmlDeviceGetCpuAffinity(nvml::Device device, unsigned,
                                                unsigned long* cpus) {
  return unknown(device, cpus);
}

nvml::Return berth_sim_nvmlDeviceGetNvLinkState(nvml::Device device, unsigned, int* active) {
  return unknown(device, active);
}

}  // namespace berth::sim
