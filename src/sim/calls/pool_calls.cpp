// SPDX-License-Identifier: Apache-2.0
// Memory pools: creation, attributes, and the current pool of a device.
// Source: CUDA Driver API, "Stream Ordered Memory Allocator".
#include <algorithm>
#include <iterator>

#include "sim/call.hpp"
#include "sim/memory/access.hpp"

namespace berth::sim {
namespace {

MemoryPool* find_pool(State& state, CUmemoryPool pool) {
  MemoryPool* found = state.pools.find(to_handle(pool));
  return found != nullptr && !found->destroyed ? found : nullptr;
}

CUresult check_pool_properties(const State& state, const CUmemPoolProps& properties, int& slot) {
  if (properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  // Pools cannot be shared between processes, as the device attribute reports.
  if (properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  // A statement of intent without requirements; allocators set it on every device.
  constexpr unsigned kUsages = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS;
  if ((properties.usage & ~kUsages) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool clean = std::all_of(std::begin(properties.reserved), std::end(properties.reserved),
                                 [](unsigned char byte) { return byte == 0; });
  if (!clean || properties.win32SecurityAttributes != nullptr) return CUDA_ERROR_INVALID_VALUE;
  return find_slot(state, properties.location, slot);
}

/// `*value` as a T, for attributes passed by a void pointer.
template <class T>
T& as(void* value) {
  return *static_cast<T*>(value);
}

bool* switch_of(MemoryPool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return &pool.policy.follow_event_dependencies;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return &pool.policy.allow_opportunistic;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return &pool.policy.allow_internal_dependencies;
    default:
      return nullptr;
  }
}

/// Makes `pool` the current pool of `device`.
CUresult use_pool(State& state, Device& device, CUmemoryPool pool) {
  const MemoryPool* found = find_pool(state, pool);
  if (found == nullptr || found->device != device.facts.slot) return CUDA_ERROR_INVALID_VALUE;
  device.pool = found->handle;
  return CUDA_SUCCESS;
}

/// The device at `location`, whose pools serve allocations of `type`. Host memory and managed
/// memory have no pools, as the device attributes report.
CUresult find_home(State& state, const CUmemLocation* location, CUmemAllocationType type,
                   Device*& device) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED && !is_managed) return CUDA_ERROR_INVALID_VALUE;
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      break;
    case CU_MEM_LOCATION_TYPE_NONE:
      return is_managed ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!state.is_ordinal(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  if (is_managed) return CUDA_ERROR_NOT_SUPPORTED;
  device = &state.device_at(location->id);
  return CUDA_SUCCESS;
}

/// The pool of the device at `location` that `which` selects.
CUresult pool_at(Function function, CUmemoryPool* pool, const CUmemLocation* location,
                 CUmemAllocationType type, Handle Device::*which) {
  Call call(function, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  const CUresult found = find_home(call.state(), location, type, device);
  if (found == CUDA_SUCCESS) *pool = from_handle<CUmemoryPool>(device->*which);
  return found;
}

}  // namespace

CUresult berth_sim_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  Call call(Function::k_cuMemPoolCreate, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int slot = 0;
  const CUresult accepted = check_pool_properties(call.state(), *properties, slot);
  if (accepted != CUDA_SUCCESS) return accepted;
  const MemoryPool& made = call.state().pools.create(slot, properties->maxSize);
  *pool = from_handle<CUmemoryPool>(made.handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemPoolDestroy(CUmemoryPool pool) {
  Call call(Function::k_cuMemPoolDestroy, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  MemoryPool* found = find_pool(state, pool);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device& device = state.devices[static_cast<std::size_t>(found->device)];
  if (device.default_pool == found->handle) return CUDA_ERROR_INVALID_VALUE;
  if (device.pool == found->handle) device.pool = device.default_pool;
  found->destroyed = true;
  if (found->bytes_used() == 0 && !found->awaits_frees()) {
    found->trim(state, 0);
    state.pools.erase(found->handle);
  }
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                         void* value) {
  Call call(Function::k_cuMemPoolSetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  MemoryPool* found = find_pool(call.state(), pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bool* policy = switch_of(*found, attribute)) {
    *policy = as<int>(value) != 0;
    return CUDA_SUCCESS;
  }
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      found->policy.release_threshold = as<cuuint64_t>(value);
      found->await_synchronization(call.state());
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (as<cuuint64_t>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      found->reset_reserved_peak();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (as<cuuint64_t>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      found->reset_used_peak();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult berth_sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                         void* value) {
  Call call(Function::k_cuMemPoolGetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  MemoryPool* found = find_pool(call.state(), pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const bool* policy = switch_of(*found, attribute)) {
    as<int>(value) = *policy ? 1 : 0;
    return CUDA_SUCCESS;
  }
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      as<cuuint64_t>(value) = found->policy.release_threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      as<cuuint64_t>(value) = found->bytes_reserved();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      as<cuuint64_t>(value) = found->bytes_reserved_peak();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      as<cuuint64_t>(value) = found->bytes_used();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      as<cuuint64_t>(value) = found->bytes_used_peak();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult berth_sim_cuMemPoolTrimTo(CUmemoryPool pool, std::size_t bytes_kept) {
  Call call(Function::k_cuMemPoolTrimTo, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  MemoryPool* found = find_pool(call.state(), pool);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  found->trim(call.state(), bytes_kept);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* descriptions,
                                      std::size_t count) {
  Call call(Function::k_cuMemPoolSetAccess, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  MemoryPool* found = find_pool(state, pool);
  if (found == nullptr || descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUresult accepted = check_access(state, descriptions[i], found->device);
    if (accepted != CUDA_SUCCESS) return accepted;
    // A device can always access its own pools.
    const int slot = state.visible[static_cast<std::size_t>(descriptions[i].location.id)];
    if (slot == found->device && descriptions[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i)
    apply_access(state, descriptions[i], found->readers, found->writers);
  state.addresses.for_each_of_pool(found->handle, [&](Range& range) {
    range.readers = found->readers;
    range.writers = found->writers;
  });
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool,
                                      CUmemLocation* location) {
  Call call(Function::k_cuMemPoolGetAccess, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const MemoryPool* found = find_pool(call.state(), pool);
  if (flags == nullptr || found == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int slot = 0;
  const CUresult accepted = find_slot(call.state(), *location, slot);
  if (accepted != CUDA_SUCCESS) return accepted;
  *flags = access_of(found->readers, found->writers, slot);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  Call call(Function::k_cuDeviceGetDefaultMemPool, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = from_handle<CUmemoryPool>(call.state().device_at(device).default_pool);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  Call call(Function::k_cuDeviceGetMemPool, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = from_handle<CUmemoryPool>(call.state().device_at(device).pool);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  Call call(Function::k_cuDeviceSetMemPool, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!call.state().is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  return use_pool(call.state(), call.state().device_at(device), pool);
}

CUresult berth_sim_cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                          CUmemAllocationType type) {
  return pool_at(Function::k_cuMemGetDefaultMemPool, pool, location, type, &Device::default_pool);
}

CUresult berth_sim_cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                   CUmemAllocationType type) {
  return pool_at(Function::k_cuMemGetMemPool, pool, location, type, &Device::pool);
}

CUresult berth_sim_cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                                   CUmemoryPool pool) {
  Call call(Function::k_cuMemSetMemPool, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Device* device = nullptr;
  const CUresult found = find_home(call.state(), location, type, device);
  return found == CUDA_SUCCESS ? use_pool(call.state(), *device, pool) : found;
}

}  // namespace berth::sim
