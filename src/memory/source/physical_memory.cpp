// SPDX-License-Identifier: Apache-2.0
#include "memory/source/physical_memory.hpp"

#include <algorithm>

namespace berth {
namespace {

CUmemLocation location_of(const DeviceContext& context) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = context.native();
  return location;
}

}  // namespace

bool supports_virtual_memory(const DeviceContext& context) {
  const Driver& driver = context.driver();
  for (const DriverCall call :
       {DriverCall::mem_get_allocation_granularity, DriverCall::mem_address_reserve,
        DriverCall::mem_address_free, DriverCall::mem_create, DriverCall::mem_release,
        DriverCall::mem_map, DriverCall::mem_unmap, DriverCall::mem_set_access}) {
    if (!driver.has(call)) return false;
  }
  return context.attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
}

bool supports_export(const DeviceContext& context) {
  const Driver& driver = context.driver();
  return supports_virtual_memory(context) &&
         driver.has(DriverCall::mem_export_to_shareable_handle) &&
         driver.has(DriverCall::mem_import_from_shareable_handle) &&
         context.attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
}

bool supports_fabric(const DeviceContext& context) {
  return supports_virtual_memory(context) &&
         context.attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) != 0;
}

bool supports_rdma(const DeviceContext& context) {
  return supports_virtual_memory(context) &&
         context.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
}

CUmemAllocationProp physical_properties(const DeviceContext& context) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(context);
  return properties;
}

CUmemAllocationProp shareable_properties(const DeviceContext& context, bool fabric) {
  CUmemAllocationProp properties = physical_properties(context);
  unsigned types = CU_MEM_HANDLE_TYPE_NONE;
  if (supports_export(context)) types |= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (fabric) types |= CU_MEM_HANDLE_TYPE_FABRIC;
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
  if (supports_rdma(context)) properties.allocFlags.gpuDirectRDMACapable = 1;
  return properties;
}

std::size_t minimum_granule_bytes(const DeviceContext& context,
                                  const CUmemAllocationProp& properties) {
  std::size_t bytes = 0;
  context.driver().mem_get_allocation_granularity(&bytes, &properties,
                                                  CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return bytes;
}

std::size_t minimum_granule_bytes(const DeviceContext& context) {
  return minimum_granule_bytes(context, physical_properties(context));
}

CUmemAccessDesc access_by(const DeviceContext& user) {
  CUmemAccessDesc access{};
  access.location = location_of(user);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

bool has_access(std::span<const CUmemAccessDesc> granted, const CUmemAccessDesc& access) {
  return std::ranges::any_of(granted, [&](const CUmemAccessDesc& each) {
    return each.location.type == access.location.type && each.location.id == access.location.id;
  });
}

}  // namespace berth
