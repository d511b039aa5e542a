// SPDX-License-Identifier: Apache-2.0
// Device allocations, pinned host memory, and what an address is.
// Source: CUDA Driver API, "Memory Management", "Unified Addressing".
#include "base/arithmetic.hpp"
#include "sim/call.hpp"
#include "sim/capture_rules.hpp"
#include "sim/host_memory.hpp"
#include "sim/pitch.hpp"

namespace berth::sim {
namespace {

// Source: CUDA Driver API, cuMemFree: no synchronisation where the memory is a pool's. Work that
// still uses it faults.
CUresult free_from_pool(Call& call, const Range& range) {
  State& state = call.state();
  MemoryPool& pool = *state.pools.find(range.pool);
  const std::uint64_t start = range.start;
  state.races.check_end(state, range, call.site());
  state.addresses.withdraw(range);
  pool.release(range, {.clock = state.order.host()});
  state.addresses.remove(start);
  return CUDA_SUCCESS;
}

/// The alignment of a texture's base, so that every row can be one.
constexpr std::size_t kPitchAlignment = 512;

CUresult allocate(Call& call, CUdeviceptr& pointer, std::size_t bytes) {
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  Context& context = call.context();
  const std::uint64_t start =
      call.state().device_at(context.ordinal).linear.allocate(call.state(), context, bytes);
  if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  pointer = start;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuMemGetInfo(std::size_t* free, std::size_t* total) {
  Call call(Function::k_cuMemGetInfo, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PhysicalMemory& memory = *call.state().device_at(call.context().ordinal).memory;
  *free = memory.bytes_free();
  *total = memory.bytes_total();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  Call call(Function::k_cuMemAlloc, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate(call, *pointer, bytes);
}

CUresult berth_sim_cuMemAllocPitch(CUdeviceptr* pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t rows, unsigned element_bytes) {
  Call call(Function::k_cuMemAllocPitch, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == nullptr || pitch == nullptr || width == 0 || rows == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
    return CUDA_ERROR_INVALID_VALUE;
  if (width > kPitchMax - kPitchAlignment) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t padded = align_up(width, kPitchAlignment);
  const auto bytes = multiply_add(padded, rows, 0);
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate(call, *pointer, *bytes);
  if (result == CUDA_SUCCESS) *pitch = padded;
  return result;
}

CUresult berth_sim_cuMemFree(CUdeviceptr pointer) {
  Call call(Function::k_cuMemFree, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const Range* range = state.addresses.find_start(pointer);
  if (range != nullptr && range->kind == RangeKind::pool_allocation)
    return free_from_pool(call, *range);
  if (range == nullptr || range->kind != RangeKind::allocation) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  const std::uint64_t id = range->id;
  const CUresult result = call.wait(state.scheduler.work_in(range->context), range->context);
  if (result != CUDA_SUCCESS) return result;
  range = state.addresses.find_start(pointer);
  if (range == nullptr || range->id != id) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
  state.races.check_end(state, *range, call.site());
  state.devices[static_cast<std::size_t>(range->device)].linear.release(state, *range);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  Call call(Function::k_cuMemHostAlloc, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  void* const pages = make_pinned_host_memory(call.state(), call.context(), bytes);
  if (pages == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = pages;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemFreeHost(void* pointer) {
  Call call(Function::k_cuMemFreeHost, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const auto start = reinterpret_cast<std::uint64_t>(pointer);
  const Range* range = state.addresses.find_start(start);
  if (range == nullptr || range->kind != RangeKind::host_allocation)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  const std::uint64_t id = range->id;
  state.scheduler.wait(state.scheduler.work_in(0));  // any context may use it
  range = state.addresses.find_start(start);
  if (range == nullptr || range->id != id) return CUDA_ERROR_INVALID_VALUE;
  unpin_host_memory(state, *range);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  constexpr unsigned missing = CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  Call call(Function::k_cuMemHostRegister, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if ((flags & ~(known | missing)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & missing) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  return register_host_memory(call.state(), call.context(), pointer, bytes);
}

CUresult berth_sim_cuMemHostUnregister(void* pointer) {
  Call call(Function::k_cuMemHostUnregister, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const auto start = reinterpret_cast<std::uint64_t>(pointer);
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Range* range = state.addresses.find_start(start);
  if (range == nullptr || range->kind != RangeKind::host_registration)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  const std::uint64_t id = range->id;
  state.scheduler.wait(state.scheduler.work_in(0));
  range = state.addresses.find_start(start);
  if (range == nullptr || range->id != id) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  unpin_host_memory(state, *range);
  return CUDA_SUCCESS;
}

namespace {

/// Writes `value` where the caller's `data` expects a T.
template <class T>
CUresult give(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

/// What holds for reserved addresses whether mapped or not.
CUresult reservation_attribute(void* data, CUpointer_attribute attribute,
                               const Reservation& reservation) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give<CUdeviceptr>(data, reservation.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give<std::size_t>(data, reservation.bytes);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult range_attribute(const State& state, void* data, CUpointer_attribute attribute,
                         CUdeviceptr pointer, const Range& range) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, from_handle<CUcontext>(range.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give<unsigned>(data, range.is_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!range.is_host()) return CUDA_ERROR_INVALID_VALUE;
      return give(data, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give<unsigned long long>(data, range.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(data, state.ordinal_of(range.device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give<CUdeviceptr>(data, range.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give<std::size_t>(data, range.bytes);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, from_handle<CUmemoryPool>(range.pool));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult berth_sim_cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                         CUdeviceptr pointer) {
  const bool asks_for_access = attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
  Call call(Function::k_cuPointerGetAttribute, asks_for_access ? Needs::context : Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  State& state = call.state();
  const Range* range = state.addresses.find(pointer);
  if (asks_for_access) {
    if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const DeviceSet own = device_bit(call.context().device);
    const DeviceSet reached =
        range->kind == RangeKind::allocation ? own | call.context().peers : own;
    if ((range->readers & reached) == 0) return CUDA_ERROR_INVALID_VALUE;
    return give<CUdeviceptr>(data, pointer);
  }
  if (range == nullptr || range->kind == RangeKind::mapping) {
    const Reservation* reservation = state.addresses.find_reservation(pointer);
    const bool of_reservation = attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                                attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
    if (reservation != nullptr && of_reservation)
      return reservation_attribute(data, attribute, *reservation);
    if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  return range_attribute(state, data, attribute, pointer, *range);
}

}  // namespace berth::sim
