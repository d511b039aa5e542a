// SPDX-License-Identifier: Apache-2.0
// Physical memory, addresses, and mappings. None of these calls needs a context or waits for work:
// work that still uses unmapped memory faults when it runs. Source: CUDA Driver API, "Virtual
// Memory Management".
#include <algorithm>
#include <bit>
#include <optional>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "sim/call.hpp"
#include "sim/memory/access.hpp"
#include "sim/memory/allocation_handles.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kReservationPage = 4_KiB;

CUresult check_properties(const State& state, const CUmemAllocationProp* properties) {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  // cuMemCreate needs a location that does not depend on the calling thread.
  if (properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!state.is_ordinal(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  // Handles for other processes can only be descriptors and, with fabric=on, fabric handles;
  // compression and sparse arrays are not supported. The device attributes report this. Memory for
  // hardware decompression is ordinary memory.
  constexpr unsigned kUsages = CU_MEM_CREATE_USAGE_TILE_POOL | CU_MEM_CREATE_USAGE_HW_DECOMPRESS;
  if ((properties->allocFlags.usage & ~kUsages) != 0) return CUDA_ERROR_INVALID_VALUE;
  const unsigned supported = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
                             (state.config.fabric ? unsigned{CU_MEM_HANDLE_TYPE_FABRIC} : 0U);
  if ((unsigned{properties->requestedHandleTypes} & ~supported) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->allocFlags.compressionType != 0 ||
      (properties->allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

/// The reservation that holds all of [start, start + bytes), or null.
Reservation* reservation_of(State& state, std::uint64_t start, std::uint64_t bytes) {
  Reservation* reservation = state.addresses.find_reservation(start);
  if (reservation == nullptr) return nullptr;
  return bytes <= reservation->bytes - (start - reservation->start) ? reservation : nullptr;
}

/// The mappings that tile [start, start + bytes) inside one reservation; empty if there are none.
std::vector<Range*> whole_mappings(State& state, std::uint64_t start, std::uint64_t bytes) {
  if (bytes == 0 || reservation_of(state, start, bytes) == nullptr) return {};
  return state.addresses.tiles(start, bytes);
}

}  // namespace

CUresult berth_sim_cuMemGetAllocationGranularity(std::size_t* granularity,
                                                 const CUmemAllocationProp* properties,
                                                 CUmemAllocationGranularity_flags option) {
  Call call(Function::k_cuMemGetAllocationGranularity, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult accepted = check_properties(call.state(), properties);
  if (accepted != CUDA_SUCCESS) return accepted;
  *granularity = call.state().config.granularity;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemAddressReserve(CUdeviceptr* pointer, std::size_t bytes,
                                       std::size_t alignment, CUdeviceptr hint,
                                       unsigned long long flags) {
  Call call(Function::k_cuMemAddressReserve, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || !is_aligned(bytes, kReservationPage) || !is_aligned(hint, kReservationPage))
    return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && !std::has_single_bit(alignment)) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t at_least = std::max<std::uint64_t>(alignment, state.config.granularity);
  const auto start = state.addresses.arena.reserve(bytes, at_least, hint);
  if (!start) return CUDA_ERROR_OUT_OF_MEMORY;
  state.addresses.reserve(*start, bytes);
  *pointer = *start;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemAddressFree(CUdeviceptr pointer, std::size_t bytes) {
  Call call(Function::k_cuMemAddressFree, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  AddressSpace& addresses = call.state().addresses;
  if (!call.state().config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  const Reservation* reservation = addresses.find_reservation(pointer);
  const bool matches = reservation != nullptr && reservation->start == pointer &&
                       reservation->bytes == bytes && reservation->mappings == 0;
  if (!matches) return CUDA_ERROR_INVALID_VALUE;
  addresses.unreserve(pointer);
  addresses.arena.release(pointer, bytes);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                               const CUmemAllocationProp* properties, unsigned long long flags) {
  Call call(Function::k_cuMemCreate, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult accepted = check_properties(state, properties);
  if (accepted != CUDA_SUCCESS) return accepted;
  if (bytes == 0 || !is_aligned(bytes, state.config.granularity)) return CUDA_ERROR_INVALID_VALUE;
  if (state.device_at(properties->location.id).lost) return CUDA_ERROR_UNKNOWN;
  PhysicalMemory& memory = *state.device_at(properties->location.id).memory;
  const int slot = state.visible[static_cast<std::size_t>(properties->location.id)];
  PhysicalBlock& block = state.blocks.create(slot, bytes);
  const bool is_shareable = properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  const Uuid& uuid = state.devices[static_cast<std::size_t>(slot)].facts.uuid;
  if (!(is_shareable ? memory.allocate_shared(block, uuid) : memory.allocate(block))) {
    state.blocks.erase(block.handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  block.handle_types = properties->requestedHandleTypes;
  block.rdma_capable = state.config.rdma && properties->allocFlags.gpuDirectRDMACapable != 0;
  block.references = 1;
  *handle = block.handle;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemRelease(CUmemGenericAllocationHandle handle) {
  Call call(Function::k_cuMemRelease, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  PhysicalBlock* block = find_allocation(call.state(), handle);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --block->references;
  drop_if_unused(call.state(), *block);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemMap(CUdeviceptr pointer, std::size_t bytes, std::size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags) {
  Call call(Function::k_cuMemMap, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const std::uint64_t granularity = state.config.granularity;
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags != 0 || offset != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || !is_aligned(bytes, granularity) || !is_aligned(pointer, granularity))
    return CUDA_ERROR_INVALID_VALUE;
  PhysicalBlock* block = find_allocation(state, handle);
  if (block == nullptr || bytes > block->bytes) return CUDA_ERROR_INVALID_VALUE;
  Reservation* reservation = reservation_of(state, pointer, bytes);
  if (reservation == nullptr || state.addresses.overlaps(pointer, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  state.addresses.add({.kind = RangeKind::mapping,
                       .start = pointer,
                       .bytes = bytes,
                       .device = block->device,
                       .block = block});
  ++block->mappings;
  ++reservation->mappings;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemUnmap(CUdeviceptr pointer, std::size_t bytes) {
  Call call(Function::k_cuMemUnmap, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  const std::vector<Range*> mappings = whole_mappings(state, pointer, bytes);
  if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
  Reservation& reservation = *state.addresses.find_reservation(pointer);
  for (const Range* mapping : mappings) {
    PhysicalBlock& block = *mapping->block;
    state.races.check_end(state, *mapping, call.site());
    state.ended_memory.note(state, *mapping);
    state.addresses.remove(mapping->start);
    --reservation.mappings;
    --block.mappings;
    drop_if_unused(state, block);
  }
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemSetAccess(CUdeviceptr pointer, std::size_t bytes,
                                  const CUmemAccessDesc* descriptions, std::size_t count) {
  Call call(Function::k_cuMemSetAccess, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (!state.config.vmm) return CUDA_ERROR_NOT_SUPPORTED;
  if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<Range*> mappings = whole_mappings(state, pointer, bytes);
  if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    for (const Range* mapping : mappings) {
      const CUresult accepted = check_access(state, descriptions[i], mapping->device);
      if (accepted != CUDA_SUCCESS) return accepted;
    }
    // NVIDIA documents no meaning of two descriptions of one location.
    const auto is_same = [&](const CUmemAccessDesc& other) {
      return other.location.type == descriptions[i].location.type &&
             other.location.id == descriptions[i].location.id;
    };
    if (std::any_of(descriptions, descriptions + i, is_same)) return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i)
    for (Range* mapping : mappings)
      apply_access(state, descriptions[i], mapping->readers, mapping->writers);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
