// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/access.hpp"

#include "sim/state.hpp"

namespace berth::sim {
namespace {

void set(DeviceSet& devices, DeviceSet bit, bool member) {
  devices = member ? devices | bit : devices & ~bit;
}

}  // namespace

CUresult find_slot(const State& state, const CUmemLocation& location, int& slot) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!state.is_ordinal(location.id)) return CUDA_ERROR_INVALID_DEVICE;
  slot = state.visible[static_cast<std::size_t>(location.id)];
  return CUDA_SUCCESS;
}

CUresult check_access(const State& state, const CUmemAccessDesc& description, int home) {
  const CUmemAccess_flags flags = description.flags;
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
      flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  int slot = 0;
  const CUresult found = find_slot(state, description.location, slot);
  if (found != CUDA_SUCCESS) return found;
  return slot == home || state.config.peer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

void apply_access(const State& state, const CUmemAccessDesc& description, DeviceSet& readers,
                  DeviceSet& writers) {
  const int slot = state.visible[static_cast<std::size_t>(description.location.id)];
  set(readers, device_bit(slot), (description.flags & CU_MEM_ACCESS_FLAGS_PROT_READ) != 0);
  set(writers, device_bit(slot), description.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

CUmemAccess_flags access_of(DeviceSet readers, DeviceSet writers, int slot) {
  if ((writers & device_bit(slot)) != 0) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return (readers & device_bit(slot)) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

}  // namespace berth::sim
