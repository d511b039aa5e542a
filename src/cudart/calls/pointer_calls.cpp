// SPDX-License-Identifier: Apache-2.0
// Pointer attributes, and locations of managed memory.
// Source: CUDA Runtime API, "Unified Addressing", "Memory Management".
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

/// The members of both layouts.
struct PointerFacts {
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  int device = cudaInvalidDeviceId;
  void* device_pointer = nullptr;
  void* host_pointer = nullptr;
};

CUresult read_facts(const Driver& driver, const void* pointer, PointerFacts& facts) {
  unsigned type = 0;
  unsigned is_managed = 0;
  CUdeviceptr device_pointer = 0;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &is_managed, &facts.device, &device_pointer, &facts.host_pointer};
  const CUresult result =
      driver.cuPointerGetAttributes(std::size(attributes), attributes, values, address(pointer));
  if (result != CUDA_SUCCESS) return result;
  // For memory that the driver does not know, it returns neither type nor device.
  if (type == 0 && is_managed == 0) {
    facts = {.host_pointer = const_cast<void*>(pointer)};
    return CUDA_SUCCESS;
  }
  facts.type = is_managed != 0              ? cudaMemoryTypeManaged
               : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                            : cudaMemoryTypeDevice;
  facts.device_pointer = reinterpret_cast<void*>(device_pointer);
  return CUDA_SUCCESS;
}

template <class Attributes>
cudaError_t get_attributes(Attributes* attributes, const void* pointer) {
  return call(Needs::context, [&](const Driver& driver) {
    if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    PointerFacts facts;
    const CUresult result = read_facts(driver, pointer, facts);
    if (result != CUDA_SUCCESS) return result;
    *attributes = Attributes{};
    attributes->type = facts.type;
    attributes->device = facts.device;
    attributes->devicePointer = facts.device_pointer;
    attributes->hostPointer = facts.host_pointer;
    return CUDA_SUCCESS;
  });
}

/// A location as in CUDA 12: cudaCpuDeviceId or a device.
CUmemLocation location_of(int device) {
  CUmemLocation location{};
  location.type =
      device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == cudaCpuDeviceId ? 0 : device;
  return location;
}

CUmemLocation location_of(const cudaMemLocation& place) {
  CUmemLocation location{};
  location.type = static_cast<CUmemLocationType>(place.type);
  location.id = place.id;
  return location;
}

}  // namespace

cudaError_t berth_cudart_cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                  const void* pointer) {
  return get_attributes(attributes, pointer);
}

cudaError_t berth_cudart_12_cudaPointerGetAttributes(older_abi::PointerAttributes* attributes,
                                                     const void* pointer) {
  return get_attributes(attributes, pointer);
}

cudaError_t berth_cudart_cudaMemPrefetchAsync(const void* pointer, std::size_t bytes,
                                              cudaMemLocation location, unsigned flags,
                                              cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemPrefetchAsync, address(pointer), bytes,
                 location_of(location), flags, stream);
}

cudaError_t berth_cudart_12_cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, int device,
                                                 cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemPrefetchAsync, address(pointer), bytes,
                 location_of(device), 0U, stream);
}

cudaError_t berth_cudart_cudaMemPrefetchBatchAsync(void** pointers, std::size_t* sizes,
                                                   std::size_t count, cudaMemLocation* locations,
                                                   std::size_t* firsts, std::size_t location_count,
                                                   unsigned long long flags, cudaStream_t stream) {
  return forward(Needs::context, &Driver::cuMemPrefetchBatchAsync, same<CUdeviceptr*>(pointers),
                 sizes, count, same<CUmemLocation*>(locations), firsts, location_count, flags,
                 stream);
}

cudaError_t berth_cudart_cudaMemAdvise(const void* pointer, std::size_t bytes,
                                       cudaMemoryAdvise advice, cudaMemLocation location) {
  return forward(Needs::context, &Driver::cuMemAdvise, address(pointer), bytes,
                 static_cast<CUmem_advise>(advice), location_of(location));
}

cudaError_t berth_cudart_12_cudaMemAdvise(const void* pointer, std::size_t bytes,
                                          cudaMemoryAdvise advice, int device) {
  return forward(Needs::context, &Driver::cuMemAdvise, address(pointer), bytes,
                 static_cast<CUmem_advise>(advice), location_of(device));
}

cudaError_t berth_cudart_cudaMemRangeGetAttribute(void* value, std::size_t value_bytes,
                                                  cudaMemRangeAttribute attribute,
                                                  const void* pointer, std::size_t bytes) {
  return forward(Needs::context, &Driver::cuMemRangeGetAttribute, value, value_bytes,
                 static_cast<CUmem_range_attribute>(attribute), address(pointer), bytes);
}

cudaError_t berth_cudart_cudaMemRangeGetAttributes(void** values, std::size_t* value_bytes,
                                                   cudaMemRangeAttribute* attributes,
                                                   std::size_t count, const void* pointer,
                                                   std::size_t bytes) {
  return forward(Needs::context, &Driver::cuMemRangeGetAttributes, values, value_bytes,
                 same<CUmem_range_attribute*>(attributes), count, address(pointer), bytes);
}

}  // namespace berth::cudart
