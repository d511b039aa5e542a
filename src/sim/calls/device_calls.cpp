// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Device Management", "Peer Context Memory Access".
#include <algorithm>
#include <cstring>
#include <string_view>

#include "sim/call.hpp"
#include "sim/device/pci_address.hpp"

namespace berth::sim {
namespace {

/// Copies `text` to `out`, truncated to `bytes`, with a terminating zero.
void copy_text(char* out, std::size_t bytes, std::string_view text) {
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

}  // namespace

CUresult berth_sim_cuDeviceGetCount(int* count) {
  Call call(Function::k_cuDeviceGetCount, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(call.state().visible.size());
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGet(CUdevice* device, int ordinal) {
  Call call(Function::k_cuDeviceGet, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetName(char* name, int bytes, CUdevice device) {
  Call call(Function::k_cuDeviceGetName, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  copy_text(name, static_cast<std::size_t>(bytes), call.state().device_at(device).facts.name);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  Call call(Function::k_cuDeviceGetUuid, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto& bytes = call.state().device_at(device).facts.uuid;
  std::memcpy(uuid->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  Call call(Function::k_cuDeviceGetPCIBusId, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::string address = pci_address_text(call.state().device_at(device).facts).substr(4);
  if (bytes <= static_cast<int>(address.size())) return CUDA_ERROR_INVALID_VALUE;
  copy_text(text, static_cast<std::size_t>(bytes), address);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  Call call(Function::k_cuDeviceTotalMem, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = call.state().device_at(device).memory->bytes_total();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  Call call(Function::k_cuDeviceGetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto known =
      device_attribute(call.state().config, call.state().device_at(device).facts, attribute);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *value = *known;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  Call call(Function::k_cuDeviceGetProperties, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto attribute = [&](CUdevice_attribute wanted) {
    const DeviceFacts& facts = call.state().device_at(device).facts;
    return device_attribute(call.state().config, facts, wanted).value_or(0);
  };
  *properties = {.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                 .maxThreadsDim = {attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                                   attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                                   attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
                 .maxGridSize = {attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                                 attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                                 attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
                 .sharedMemPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                 .totalConstantMemory = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                 .SIMDWidth = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                 .memPitch = attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                 .regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                 .clockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                 .textureAlign = attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  Call call(Function::k_cuDeviceComputeCapability, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const DeviceFacts& facts = call.state().device_at(device).facts;
  const Config& config = call.state().config;
  *major =
      device_attribute(config, facts, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).value_or(0);
  *minor =
      device_attribute(config, facts, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).value_or(0);
  return CUDA_SUCCESS;
}

// A context cannot be confined to some multiprocessors.
CUresult berth_sim_cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type,
                                                  CUdevice device) {
  Call call(Function::k_cuDeviceGetExecAffinitySupport, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (supported == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
    return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  *supported = 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  Call call(Function::k_cuDeviceCanAccessPeer, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const State& state = call.state();
  if (!state.is_ordinal(device) || !state.is_ordinal(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = state.config.peer && device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute,
                                           CUdevice source, CUdevice destination) {
  Call call(Function::k_cuDeviceGetP2PAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const State& state = call.state();
  if (value == nullptr || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  if (!state.is_ordinal(source) || !state.is_ordinal(destination) || source == destination)
    return CUDA_ERROR_INVALID_DEVICE;
  // All links have equal performance, so each has rank 0. Arrays are not simulated.
  const bool is_supported = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                            attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
  *value = is_supported && state.config.peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  Call call(Function::k_cuDeviceGetByPCIBusId, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto address = parse_pci_address(text);
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  for (int ordinal = 0; state.is_ordinal(ordinal); ++ordinal) {
    const DeviceFacts& facts = state.device_at(ordinal).facts;
    const PciAddress own{static_cast<unsigned>(facts.pci_domain),
                         static_cast<unsigned>(facts.pci_bus),
                         static_cast<unsigned>(facts.pci_device), 0};
    if (own != *address) continue;
    *device = ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace berth::sim
