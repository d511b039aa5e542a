// SPDX-License-Identifier: Apache-2.0
// Prefetches of managed memory, advice about it, and queries of both.
// Source: CUDA Driver API, "Unified Addressing".
#include <algorithm>
#include <span>
#include <vector>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

/// The NUMA node on which all threads of the program run.
constexpr int kThreadsNode = 0;

/// Whether [pointer, pointer + bytes) is inside one allocation of managed memory.
bool is_managed(State& state, CUdeviceptr pointer, std::size_t bytes) {
  const Range* range = state.addresses.find(pointer);
  return bytes != 0 && range != nullptr && range->kind == RangeKind::managed &&
         bytes <= range->end() - pointer;
}

/// Whether it is pageable memory that devices can access.
bool is_accessible_pageable(State& state, CUdeviceptr pointer, std::size_t bytes) {
  return state.config.pageable_access != PageableAccess::none && bytes != 0 &&
         state.addresses.span(pointer, bytes).kind == Span::Kind::pageable &&
         is_pageable_memory(pointer, bytes, Access::copy_from);
}

/// The location that a device ordinal means in the functions before CUDA 12.2.
CUmemLocation location_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

/// Of the simulated machine: those of its devices, and the one on which threads run.
bool is_numa_node(const State& state, int node) {
  if (node < 0) return false;
  return node == kThreadsNode ||
         std::any_of(state.devices.begin(), state.devices.end(), [&](const Device& device) {
           return state.config.numa_of(device.facts.physical()) == node;
         });
}

/// Checks a location, and replaces the current node by its number.
CUresult resolve_location(const State& state, CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return state.is_ordinal(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return is_numa_node(state, location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, kThreadsNode};
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult prefetch(Call& call, CUdeviceptr pointer, std::size_t bytes, CUmemLocation location,
                  CUstream stream) BERTH_REQUIRES(mutex) {
  State& state = call.state();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_managed(state, pointer, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult accepted = resolve_location(state, location);
  if (accepted != CUDA_SUCCESS) return accepted;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  const CUresult refusal = refuse_unrecordable(state, *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (!is_managed(state, pointer, bytes)) return CUDA_ERROR_INVALID_VALUE;  // freed during the wait
  state.advice.change(pointer, bytes, [&](Advice& advice) { advice.prefetched = location; });
  const bool to_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int slot = to_device ? state.visible[static_cast<std::size_t>(location.id)] : -1;
  state.scheduler.submit(*found, PrefetchWork{pointer, bytes, slot});
  return call.end_submission(*found);
}

void set_accessed_by(Advice& advice, const CUmemLocation& location, bool is_set) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    advice.accessed_by_host = is_set;
    return;
  }
  const DeviceSet bit = device_bit(location.id);
  advice.accessed_by = is_set ? advice.accessed_by | bit : advice.accessed_by & ~bit;
}

/// Checks the arguments of a batch: `firsts` are the indices at which each location begins.
bool is_batch(const CUdeviceptr* pointers, const std::size_t* sizes, std::size_t count,
              const CUmemLocation* locations, const std::size_t* firsts, std::size_t location_count,
              unsigned long long flags) {
  if (count == 0 || location_count == 0 || location_count > count || flags != 0) return false;
  if (pointers == nullptr || sizes == nullptr || locations == nullptr || firsts == nullptr)
    return false;
  if (firsts[0] != 0) return false;
  for (std::size_t i = 1; i < location_count; ++i)
    if (firsts[i] <= firsts[i - 1] || firsts[i] >= count) return false;
  return true;
}

CUresult advise(Call& call, CUdeviceptr pointer, std::size_t bytes, CUmem_advise what,
                CUmemLocation location) {
  State& state = call.state();
  const bool is_pageable = is_accessible_pageable(state, pointer, bytes);
  if (!is_pageable && !is_managed(state, pointer, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (what < CU_MEM_ADVISE_SET_READ_MOSTLY || what > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  const bool accesses =
      what == CU_MEM_ADVISE_SET_ACCESSED_BY || what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  const bool is_processor =
      location.type == CU_MEM_LOCATION_TYPE_DEVICE || location.type == CU_MEM_LOCATION_TYPE_HOST;
  if (accesses && !is_processor) return CUDA_ERROR_INVALID_VALUE;
  if (accesses || what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION) {
    const CUresult accepted = resolve_location(state, location);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  if (is_pageable) return CUDA_SUCCESS;  // it stays where it is
  state.advice.change(pointer, bytes, [&](Advice& advice) {
    switch (what) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        advice.read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        advice.preferred = location;
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        advice.preferred = Advice{}.preferred;
        break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        set_accessed_by(advice, location, what == CU_MEM_ADVISE_SET_ACCESSED_BY);
        break;
    }
  });
  return CUDA_SUCCESS;
}

/// The advice of a range: a value that all its pages share, or none.
struct SharedAdvice {
  bool read_mostly = true;
  CUmemLocation preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0};
  CUmemLocation prefetched = {CU_MEM_LOCATION_TYPE_INVALID, 0};
  DeviceSet accessed_by = ~DeviceSet{0};
  bool accessed_by_host = true;
};

bool is_same(const CUmemLocation& one, const CUmemLocation& other) {
  const bool has_id =
      one.type == CU_MEM_LOCATION_TYPE_DEVICE || one.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return one.type == other.type && (!has_id || one.id == other.id);
}

SharedAdvice shared_advice(const State& state, CUdeviceptr pointer, std::size_t bytes) {
  SharedAdvice shared;
  bool is_first = true;
  state.advice.visit(pointer, bytes, [&](const Advice& advice, std::uint64_t) {
    const auto agree = [&](CUmemLocation& all, const CUmemLocation& own) {
      if (is_first) all = own;
      if (!is_same(all, own)) all = Advice{}.preferred;
    };
    agree(shared.preferred, advice.preferred);
    agree(shared.prefetched, advice.prefetched);
    shared.read_mostly = shared.read_mostly && advice.read_mostly;
    shared.accessed_by &= advice.accessed_by;
    shared.accessed_by_host = shared.accessed_by_host && advice.accessed_by_host;
    is_first = false;
  });
  return shared;
}

/// The location as one number, for attributes that know only devices and the host.
int number_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/// Fills `out`, which has room for `count` numbers. Unused entries are set to the end marker.
void write_accessed_by(const SharedAdvice& shared, int* out, std::size_t count) {
  std::vector<int> all;
  if (shared.accessed_by_host) all.push_back(CU_DEVICE_CPU);
  for (int ordinal = 0; ordinal < 64; ++ordinal)
    if ((shared.accessed_by & device_bit(ordinal)) != 0) all.push_back(ordinal);
  all.resize(count, CU_DEVICE_INVALID);
  std::copy(all.begin(), all.end(), out);
}

/// Whether `attribute` is valid, and `bytes` is one of its sizes.
bool is_attribute(CUmem_range_attribute attribute, std::size_t bytes) {
  if (attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
      attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
    return false;
  return attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? bytes != 0 && bytes % sizeof(int) == 0
                                                         : bytes == sizeof(int);
}

void write_attribute(const SharedAdvice& shared, int* out, std::size_t bytes,
                     CUmem_range_attribute attribute) {
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *out = shared.read_mostly ? 1 : 0;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      *out = number_of(shared.preferred);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      write_accessed_by(shared, out, bytes / sizeof(int));
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *out = number_of(shared.prefetched);
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      *out = shared.preferred.type;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      *out = shared.preferred.id;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *out = shared.prefetched.type;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      *out = shared.prefetched.id;
      break;
  }
}

CUresult get_attributes(State& state, std::span<void* const> data, const std::size_t* sizes,
                        const CUmem_range_attribute* attributes, CUdeviceptr pointer,
                        std::size_t count) {
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i] == nullptr || !is_attribute(attributes[i], sizes[i]))
      return CUDA_ERROR_INVALID_VALUE;
  if (!is_managed(state, pointer, count)) return CUDA_ERROR_INVALID_VALUE;
  const SharedAdvice shared = shared_advice(state, pointer, count);
  for (std::size_t i = 0; i < data.size(); ++i)
    write_attribute(shared, static_cast<int*>(data[i]), sizes[i], attributes[i]);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuMemPrefetchAsync(CUdeviceptr pointer, std::size_t bytes,
                                      CUmemLocation location, unsigned flags, CUstream stream) {
  Call call(Function::k_cuMemPrefetchAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return prefetch(call, pointer, bytes, location, stream);
}

CUresult berth_sim_cuMemPrefetchAsync_v1(CUdeviceptr pointer, std::size_t bytes, CUdevice device,
                                         CUstream stream) {
  Call call(Function::k_cuMemPrefetchAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return prefetch(call, pointer, bytes, location_of(device), stream);
}

// What is wrong with a prefetch is found before the first of them.
CUresult berth_sim_cuMemPrefetchBatchAsync(CUdeviceptr* pointers, std::size_t* sizes,
                                           std::size_t count, CUmemLocation* locations,
                                           std::size_t* firsts, std::size_t location_count,
                                           unsigned long long flags, CUstream stream) {
  Call call(Function::k_cuMemPrefetchBatchAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (!is_batch(pointers, sizes, count, locations, firsts, location_count, flags))
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    if (!is_managed(call.state(), pointers[i], sizes[i])) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < location_count; ++i) {
    CUmemLocation location = locations[i];
    const CUresult accepted = resolve_location(call.state(), location);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  std::size_t location = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (location + 1 < location_count && firsts[location + 1] == i) ++location;
    const CUresult result = prefetch(call, pointers[i], sizes[i], locations[location], stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Managed memory is accessible everywhere here, to whatever it is attached.
CUresult berth_sim_cuStreamAttachMemAsync(CUstream stream, CUdeviceptr pointer, std::size_t bytes,
                                          unsigned flags) {
  Call call(Function::k_cuStreamAttachMemAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Range* const range = call.state().addresses.find(pointer);
  const bool is_whole = range != nullptr && range->kind == RangeKind::managed &&
                        range->start == pointer && (bytes == 0 || bytes == range->bytes);
  const bool is_known =
      flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE;
  const bool needs_stream = flags == CU_MEM_ATTACH_SINGLE;
  if (!is_whole || !is_known || (needs_stream && found->kind == StreamKind::legacy))
    return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult refusal = refuse_unrecordable(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  call.state().scheduler.submit(*found, WaitWork{});
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemAdvise(CUdeviceptr pointer, std::size_t bytes, CUmem_advise what,
                               CUmemLocation location) {
  Call call(Function::k_cuMemAdvise, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return advise(call, pointer, bytes, what, location);
}

CUresult berth_sim_cuMemAdvise_v1(CUdeviceptr pointer, std::size_t bytes, CUmem_advise what,
                                  CUdevice device) {
  Call call(Function::k_cuMemAdvise, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return advise(call, pointer, bytes, what, location_of(device));
}

CUresult berth_sim_cuMemRangeGetAttribute(void* data, std::size_t bytes,
                                          CUmem_range_attribute attribute, CUdeviceptr pointer,
                                          std::size_t count) {
  Call call(Function::k_cuMemRangeGetAttribute, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return get_attributes(call.state(), {&data, 1}, &bytes, &attribute, pointer, count);
}

CUresult berth_sim_cuMemRangeGetAttributes(void** data, std::size_t* sizes,
                                           CUmem_range_attribute* attributes, std::size_t number,
                                           CUdeviceptr pointer, std::size_t count) {
  Call call(Function::k_cuMemRangeGetAttributes, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (data == nullptr || sizes == nullptr || attributes == nullptr || number == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return get_attributes(call.state(), {data, number}, sizes, attributes, pointer, count);
}

}  // namespace berth::sim
