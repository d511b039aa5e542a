// SPDX-License-Identifier: Apache-2.0
// Addresses, sizes, handles of memory and access rights that are wrong.
#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

void copy_past_the_end(Machine& m) {
  const CUdeviceptr staging = m.pinned("staging", 2 * kBytes);
  const CUdeviceptr input = m.memory("input");
  const CUstream copies = m.stream("copies");
  TRY(cuMemcpyAsync, input, staging, m.planted ? kBytes + 1 : kBytes, copies);
  TRY(cuStreamSynchronize, copies);
}

void copy_past_the_end_of_pinned_memory(Machine& m) {
  const CUdeviceptr staging = m.pinned("staging");
  const CUdeviceptr results = m.memory("results", 2 * kBytes);
  const CUstream copies = m.stream("copies");
  TRY(cuMemcpyAsync, staging, results, m.planted ? kBytes + 1 : kBytes, copies);
  TRY(cuStreamSynchronize, copies);
}

void kernel_past_the_end(Machine& m) {
  const CUdeviceptr table = m.memory("table");
  m.memory("neighbor");
  const CUstream kernels = m.stream("kernels");
  m.launch_writing(kernels, m.planted ? table + 1 : table);
  TRY(cuStreamSynchronize, kernels);
}

void free_twice(Machine& m) {
  CUdeviceptr table = 0;
  TRY(cuMemAlloc, &table, kBytes);
  m.memory("neighbor");
  TRY(cuMemFree, table);
  if (m.planted) TRY(cuMemFree, table);
}

void free_inside(Machine& m) {
  CUdeviceptr table = 0;
  TRY(cuMemAlloc, &table, kBytes);
  TRY(cuMemFree, m.planted ? table + 512 : table);
}

void pinned_memory_freed_as_device_memory(Machine& m) {
  void* staging = nullptr;
  TRY(cuMemHostAlloc, &staging, kBytes, 0);
  if (m.planted) TRY(cuMemFree, address_of(staging));
  TRY(cuMemFreeHost, staging);
}

void mapped_memory_freed_as_an_allocation(Machine& m) {
  const CUdeviceptr table = m.map_new("table");
  if (m.planted) TRY(cuMemFree, table);
  Machine::unmap(table);
}

void registered_twice(Machine& m) {
  alignas(4096) static unsigned char buffer[2 * kBytes];
  TRY(cuMemHostRegister, buffer, 2 * kBytes, 0);
  if (m.planted) TRY(cuMemHostRegister, buffer + kBytes, kBytes, 0);
  TRY(cuMemHostUnregister, buffer);
}

void physical_memory_released_twice(Machine& m) {
  const CUdeviceptr table = m.reserve("table");
  const CUmemGenericAllocationHandle physical = Machine::create();
  Machine::map(table, physical);
  TRY(cuMemRelease, physical);
  Machine::unmap(table);
  if (m.planted) TRY(cuMemRelease, physical);
}

void size_of_half_a_granule(Machine& m) {
  const CUmemAllocationProp properties = properties_on(0);
  CUmemGenericAllocationHandle physical = 0;
  TRY(cuMemCreate, &physical, m.planted ? kMachineGranule / 2 : kMachineGranule, &properties, 0);
  TRY(cuMemRelease, physical);
}

void mapped_over_a_mapping(Machine& m) {
  const CUdeviceptr table = m.map_new("table");
  const CUmemGenericAllocationHandle physical = Machine::create();
  if (!m.planted) TRY(cuMemUnmap, table, kMachineGranule);
  Machine::map(table, physical);
  TRY(cuMemRelease, physical);
  Machine::unmap(table);
}

void addresses_freed_while_mapped(Machine& m) {
  const CUdeviceptr table = m.map_new("table");
  if (m.planted) TRY(cuMemAddressFree, table, kMachineGranule);
  Machine::unmap(table);
}

void half_of_a_mapping_unmapped(Machine& m) {
  CUdeviceptr table = 0;
  TRY(cuMemAddressReserve, &table, 2 * kMachineGranule, 0, 0, 0);
  const CUmemAllocationProp properties = properties_on(0);
  CUmemGenericAllocationHandle physical = 0;
  TRY(cuMemCreate, &physical, 2 * kMachineGranule, &properties, 0);
  TRY(cuMemMap, table, 2 * kMachineGranule, 0, physical, 0);
  TRY(cuMemRelease, physical);
  if (m.planted) TRY(cuMemUnmap, table + kMachineGranule, kMachineGranule);
  TRY(cuMemUnmap, table, 2 * kMachineGranule);
  TRY(cuMemAddressFree, table, 2 * kMachineGranule);
}

void mapped_without_access(Machine& m) {
  const CUdeviceptr table = m.reserve("table");
  const CUmemGenericAllocationHandle physical = Machine::create();
  const CUstream kernels = m.stream("kernels");
  Machine::map(table, physical);
  TRY(cuMemRelease, physical);
  if (!m.planted) Machine::allow(table);
  m.launch_reading(kernels, table);
  TRY(cuStreamSynchronize, kernels);
  Machine::unmap(table);
}

void kernel_writes_what_it_may_read(Machine& m) {
  const CUdeviceptr weights = m.map_new("weights");
  const CUstream kernels = m.stream("kernels");
  Machine::allow(weights, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  if (m.planted)
    m.launch_writing(kernels, weights);
  else
    m.launch_reading(kernels, weights);
  TRY(cuStreamSynchronize, kernels);
  Machine::unmap(weights);
}

void fill_of_what_may_be_read(Machine& m) {
  const CUdeviceptr weights = m.map_new("weights");
  const CUstream fills = m.stream("fills");
  if (m.planted) Machine::allow(weights, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  TRY(cuMemsetD8Async, weights, 0, kMachineGranule, fills);
  TRY(cuStreamSynchronize, fills);
  Machine::unmap(weights);
}

constexpr Misuse kAddressMisuses[] = {
    {"a copy runs past the end of an allocation", copy_past_the_end,
     "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE"},
    {"a copy runs past the end of pinned memory", copy_past_the_end_of_pinned_memory,
     "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE"},
    {"a kernel runs past the end of an allocation, into its neighbor", kernel_past_the_end,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"memory is freed twice", free_twice, "cuMemFree: CUDA_ERROR_INVALID_VALUE"},
    {"an address inside an allocation is freed", free_inside,
     "cuMemFree: CUDA_ERROR_INVALID_VALUE"},
    {"pinned memory is freed as device memory", pinned_memory_freed_as_device_memory,
     "cuMemFree: CUDA_ERROR_INVALID_VALUE"},
    {"mapped memory is freed as an allocation", mapped_memory_freed_as_an_allocation,
     "cuMemFree: CUDA_ERROR_INVALID_VALUE"},
    {"part of registered memory is registered again", registered_twice,
     "cuMemHostRegister: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {"a handle of physical memory is released twice", physical_memory_released_twice,
     "cuMemRelease: CUDA_ERROR_INVALID_VALUE"},
    {"physical memory is asked for in half granules", size_of_half_a_granule,
     "cuMemCreate: CUDA_ERROR_INVALID_VALUE"},
    {"memory is mapped over a mapping", mapped_over_a_mapping,
     "cuMemMap: CUDA_ERROR_INVALID_VALUE"},
    {"reserved addresses are freed while something is mapped there", addresses_freed_while_mapped,
     "cuMemAddressFree: CUDA_ERROR_INVALID_VALUE"},
    {"half of a mapping is unmapped", half_of_a_mapping_unmapped,
     "cuMemUnmap: CUDA_ERROR_INVALID_VALUE"},
    {"a kernel uses mapped memory that nobody was given access to", mapped_without_access,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a kernel writes memory that it may only read", kernel_writes_what_it_may_read,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a fill writes memory that may only be read", fill_of_what_may_be_read,
     "cuMemsetD8Async: CUDA_ERROR_INVALID_VALUE"},
};

}  // namespace

std::span<const Misuse> address_misuses() {
  return kAddressMisuses;
}

}  // namespace berth::test
