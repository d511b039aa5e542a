// SPDX-License-Identifier: Apache-2.0
// Queries of addresses.
// Source: CUDA Driver API, "Unified Addressing", cuMemGetAddressRange, cuMemHostGetDevicePointer.
#include <algorithm>
#include <cstring>

#include "sim/call.hpp"

namespace berth::sim {
namespace {

/// Writes `value` to `data`, which points to a T.
template <class T>
CUresult write_attribute(void* data, T value) {
  *static_cast<T*>(data) = value;
  return CUDA_SUCCESS;
}

/// The attributes of reserved addresses, mapped or not.
CUresult reservation_attribute(void* data, CUpointer_attribute attribute,
                               const Reservation& reservation) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return write_attribute<CUdeviceptr>(data, reservation.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return write_attribute<std::size_t>(data, reservation.bytes);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult range_attribute(const State& state, void* data, CUpointer_attribute attribute,
                         CUdeviceptr pointer, const Range& range) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return write_attribute(data, from_handle<CUcontext>(range.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return write_attribute<unsigned>(data, range.is_host() && range.kind != RangeKind::managed
                                                 ? CU_MEMORYTYPE_HOST
                                                 : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!range.is_host()) return CUDA_ERROR_INVALID_VALUE;
      return write_attribute(data, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return write_attribute<unsigned>(data, range.synchronous ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return write_attribute<unsigned long long>(data, range.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return write_attribute<unsigned>(data, range.kind == RangeKind::managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return write_attribute<int>(data, state.ordinal_of(range.device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return write_attribute<CUdeviceptr>(data, range.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return write_attribute<std::size_t>(data, range.bytes);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return write_attribute(data, from_handle<CUmemoryPool>(range.pool));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// The address of `range` in the current context; needs a context.
CUresult device_pointer(void* data, CUdeviceptr pointer, const Context& context,
                        const Range& range) {
  const DeviceSet own = device_bit(context.device);
  const DeviceSet reached = range.is_closed() ? own : own | context.peers;
  if ((range.readers & reached) == 0) return CUDA_ERROR_INVALID_VALUE;
  return write_attribute<CUdeviceptr>(data, pointer);
}

/// `call` has a context if the attribute needs one.
CUresult pointer_attribute(Call& call, void* data, CUpointer_attribute attribute,
                           CUdeviceptr pointer) {
  State& state = call.state();
  const Range* range = state.addresses.find(pointer);
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    return range == nullptr ? CUDA_ERROR_INVALID_VALUE
                            : device_pointer(data, pointer, call.context(), *range);
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

/// The size of the data of `attribute`; 0 if it is not simulated.
std::size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return 8;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

CUresult berth_sim_cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                         CUdeviceptr pointer) {
  const bool needs_access = attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
  Call call(Function::k_cuPointerGetAttribute, needs_access ? Needs::context : Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(call, data, attribute, pointer);
}

// An attribute that the address does not have is zero, without an error.
CUresult berth_sim_cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                          void** data, CUdeviceptr pointer) {
  const bool is_complete = count != 0 && attributes != nullptr && data != nullptr;
  const bool needs_access =
      is_complete && std::find(attributes, attributes + count,
                               CU_POINTER_ATTRIBUTE_DEVICE_POINTER) != attributes + count;
  Call call(Function::k_cuPointerGetAttributes, needs_access ? Needs::context : Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!is_complete) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    if (data[i] == nullptr || attribute_bytes(attributes[i]) == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    std::memset(data[i], 0, attribute_bytes(attributes[i]));
    pointer_attribute(call, data[i], attributes[i], pointer);
  }
  return CUDA_SUCCESS;
}

// One attribute can be set, and only of device memory.
CUresult berth_sim_cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                         CUdeviceptr pointer) {
  Call call(Function::k_cuPointerSetAttribute, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  Range* const range = call.state().addresses.find(pointer);
  if (range == nullptr || range->is_host()) return CUDA_ERROR_INVALID_VALUE;
  range->synchronous = *static_cast<const unsigned*>(value) != 0;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemGetAddressRange(CUdeviceptr* start, std::size_t* bytes,
                                        CUdeviceptr pointer) {
  Call call(Function::k_cuMemGetAddressRange, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Range* range = call.state().addresses.find(pointer);
  if (range == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (start != nullptr) *start = range->start;
  if (bytes != nullptr) *bytes = range->bytes;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned flags) {
  Call call(Function::k_cuMemHostGetDevicePointer, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (device == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Range* range = call.state().addresses.find(to_handle(host));
  if (range == nullptr || !range->is_host() || range->kind == RangeKind::managed)
    return CUDA_ERROR_INVALID_VALUE;
  *device = to_handle(host);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemHostGetFlags(unsigned* flags, void* host) {
  Call call(Function::k_cuMemHostGetFlags, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Range* range = call.state().addresses.find(to_handle(host));
  if (flags == nullptr || range == nullptr || range->kind != RangeKind::host_allocation)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = range->host_flags;
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
