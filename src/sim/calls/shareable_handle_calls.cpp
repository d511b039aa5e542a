// SPDX-License-Identifier: Apache-2.0
// Physical memory shared between processes by file descriptors and fabric handles, and the
// properties of handles and addresses. Source: CUDA Driver API, "Virtual Memory Management".
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "base/arithmetic.hpp"
#include "sim/call.hpp"
#include "sim/memory/access.hpp"
#include "sim/memory/allocation_handles.hpp"
#include "sim/memory/shared_memory.hpp"

namespace berth::sim {
namespace {

CUresult check_handle_type(const State& state, CUmemAllocationHandleType type) {
  switch (type) {
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return state.config.fabric ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    case CU_MEM_HANDLE_TYPE_WIN32:
    case CU_MEM_HANDLE_TYPE_WIN32_KMT:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// The content of a CUmemFabricHandle. As on hardware, it keeps no memory alive.
struct FabricHandle {
  char magic[8];
  NamedFile memory;
};
static_assert(sizeof(FabricHandle) <= CU_IPC_HANDLE_SIZE);
constexpr char kFabricMagic[8] = {'b', 'e', 'r', 't', 'h', 'f', 'a', 'b'};

CUmemFabricHandle fabric_handle(const SharedMemory& memory) {
  FabricHandle named{{}, NamedFile::of(memory)};
  std::memcpy(named.magic, kFabricMagic, sizeof kFabricMagic);
  CUmemFabricHandle handle{};
  std::memcpy(&handle, &named, sizeof named);
  return handle;
}

/// Null if it names no memory that exists.
std::shared_ptr<SharedMemory> open_fabric(const CUmemFabricHandle& handle) {
  FabricHandle named;
  std::memcpy(&named, &handle, sizeof named);
  if (std::memcmp(named.magic, kFabricMagic, sizeof kFabricMagic) != 0) return nullptr;
  return named.memory.open();
}

/// The memory that `shareable` refers to, as in cuMemImportFromShareableHandle; null if it refers
/// to none.
std::shared_ptr<SharedMemory> open_shared(void* shareable, CUmemAllocationHandleType type) {
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    return shareable == nullptr ? nullptr
                                : open_fabric(*static_cast<const CUmemFabricHandle*>(shareable));
  }
  const auto descriptor = reinterpret_cast<std::uintptr_t>(shareable);
  if (descriptor > static_cast<std::uintptr_t>(std::numeric_limits<int>::max())) return nullptr;
  return SharedMemory::open(static_cast<int>(descriptor));
}

/// The visible device with that UUID, or null.
Device* find_device(State& state, const Uuid& uuid) {
  for (const int slot : state.visible) {
    Device& device = state.devices[static_cast<std::size_t>(slot)];
    if (device.facts.uuid == uuid) return &device;
  }
  return nullptr;
}

}  // namespace

CUresult berth_sim_cuMemExportToShareableHandle(void* shareable,
                                                CUmemGenericAllocationHandle handle,
                                                CUmemAllocationHandleType type,
                                                unsigned long long flags) {
  Call call(Function::k_cuMemExportToShareableHandle, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (shareable == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult accepted = check_handle_type(call.state(), type);
  if (accepted != CUDA_SUCCESS) return accepted;
  const PhysicalBlock* block = find_allocation(call.state(), handle);
  if (block == nullptr || (block->handle_types & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    *static_cast<CUmemFabricHandle*>(shareable) = fabric_handle(*block->shared);
    return CUDA_SUCCESS;
  }
  const int descriptor = block->shared->export_descriptor();
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareable) = descriptor;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                  void* shareable, CUmemAllocationHandleType type) {
  Call call(Function::k_cuMemImportFromShareableHandle, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult accepted = check_handle_type(state, type);
  if (accepted != CUDA_SUCCESS) return accepted;
  const std::shared_ptr<SharedMemory> shared = open_shared(shareable, type);
  if (shared == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = find_device(state, shared->uuid());
  if (device == nullptr || !is_aligned(shared->bytes(), state.config.granularity))
    return CUDA_ERROR_NOT_SUPPORTED;
  PhysicalBlock& block = state.blocks.create(device->facts.slot, shared->bytes());
  if (!device->memory->adopt(block, shared)) {
    state.blocks.erase(block.handle);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  block.handle_types = type;
  block.references = 1;
  *handle = block.handle;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                               void* address) {
  Call call(Function::k_cuMemRetainAllocationHandle, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  const Range* range = state.addresses.find(reinterpret_cast<std::uint64_t>(address));
  if (handle == nullptr || range == nullptr || range->kind != RangeKind::mapping)
    return CUDA_ERROR_INVALID_VALUE;
  ++range->block->references;
  *handle = range->block->handle;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                          CUmemGenericAllocationHandle handle) {
  Call call(Function::k_cuMemGetAllocationPropertiesFromHandle, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  const PhysicalBlock* block = find_allocation(state, handle);
  if (properties == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(block->handle_types);
  properties->allocFlags.gpuDirectRDMACapable = block->rdma_capable ? 1 : 0;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = state.ordinal_of(block->device);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                  CUdeviceptr pointer) {
  Call call(Function::k_cuMemGetAccess, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  const Range* range = state.addresses.find(pointer);
  if (flags == nullptr || location == nullptr || range == nullptr ||
      range->kind != RangeKind::mapping)
    return CUDA_ERROR_INVALID_VALUE;
  int slot = 0;
  const CUresult accepted = find_slot(state, *location, slot);
  if (accepted != CUDA_SUCCESS) return accepted;
  *flags = access_of(range->readers, range->writers, slot);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
