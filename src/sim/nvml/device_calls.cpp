// SPDX-License-Identifier: Apache-2.0
// Properties of devices, and of pairs of devices.
// Source: NVML API Reference Guide, "Device Queries".
#include "sim/nvml/nvml_call.hpp"

namespace berth::sim {
namespace {

/// The same attribute from CUDA.
int attribute(const State& state, const Device& device, CUdevice_attribute which) {
  return *device_attribute(state.config, device.facts, which);
}

}  // namespace

nvml::Return berth_sim_nvmlDeviceGetName(nvml::Device device, char* name, unsigned bytes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr) return nvml::kInvalidArgument;
  return write_text(name, bytes, found->facts.name);
}

nvml::Return berth_sim_nvmlDeviceGetCudaComputeCapability(nvml::Device device, int* major,
                                                          int* minor) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || major == nullptr || minor == nullptr) return nvml::kInvalidArgument;
  const State& state = call.state();
  *major = attribute(state, *found, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = attribute(state, *found, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return nvml::kSuccess;
}

// The compute modes of NVML and of CUDA have the same numbers.
nvml::Return berth_sim_nvmlDeviceGetComputeMode(nvml::Device device, int* mode) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || mode == nullptr) return nvml::kInvalidArgument;
  *mode = attribute(call.state(), *found, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  return nvml::kSuccess;
}

// Off: a simulated device loses its state with its last user.
nvml::Return berth_sim_nvmlDeviceGetPersistenceMode(nvml::Device device, int* mode) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (call.find_gpu(device) == nullptr || mode == nullptr) return nvml::kInvalidArgument;
  *mode = 0;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetEccMode(nvml::Device device, int* current, int* pending) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || current == nullptr || pending == nullptr) return nvml::kInvalidArgument;
  *current = attribute(call.state(), *found, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  *pending = *current;
  return nvml::kSuccess;
}

// The topology between two devices is not simulated, so the answer is the most general level.
nvml::Return berth_sim_nvmlDeviceGetTopologyCommonAncestor(nvml::Device one, nvml::Device other,
                                                           nvml::TopologyLevel* level) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (call.find_gpu(one) == nullptr || call.find_gpu(other) == nullptr || level == nullptr)
    return nvml::kInvalidArgument;
  *level = one == other ? nvml::kTopologyInternal : nvml::kTopologySystem;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetP2PStatus(nvml::Device from, nvml::Device to,
                                              nvml::P2pCaps capability, nvml::P2pStatus* status) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* source = call.find_gpu(from);
  const Device* target = call.find_gpu(to);
  if (source == nullptr || target == nullptr || status == nullptr) return nvml::kInvalidArgument;
  if (capability < nvml::kP2pRead || capability >= nvml::kP2pUnknown) return nvml::kInvalidArgument;
  const Config& config = call.state().config;
  const bool split =
      config.mig.contains(source->facts.slot) || config.mig.contains(target->facts.slot);
  const bool reaches = config.peer && source != target && !split;
  // The only link is the bus, without atomics.
  const bool offered =
      capability == nvml::kP2pRead || capability == nvml::kP2pWrite || capability == nvml::kP2pPci;
  *status = reaches && offered ? nvml::kP2pOk : nvml::kP2pNotSupported;
  return nvml::kSuccess;
}

}  // namespace berth::sim
