// SPDX-License-Identifier: Apache-2.0
// Physical memory of a device, independent of the addresses to which it is mapped: the features of
// a device, and the properties with which berth creates memory. Source: CUDA Driver API, "Virtual
// Memory Management".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <span>

#include "device/device_context.hpp"

namespace berth {

/// Whether the device and the driver can map memory at all.
bool supports_virtual_memory(const DeviceContext& context);
/// Whether other processes can import memory of the device by a file descriptor.
bool supports_export(const DeviceContext& context);
/// Whether other machines can import memory of the device by a fabric handle.
bool supports_fabric(const DeviceContext& context);
/// Whether network cards can access memory of the device that berth maps (GPUDirect RDMA).
bool supports_rdma(const DeviceContext& context);

/// The properties of memory for this process alone.
CUmemAllocationProp physical_properties(const DeviceContext& context);
/// The properties of memory that other processes and network cards can refer to, as far as the
/// device supports it; `fabric`: other machines, too, which the device supports.
CUmemAllocationProp shareable_properties(const DeviceContext& context, bool fabric);

/// Read and write access of that device.
CUmemAccessDesc access_by(const DeviceContext& user);
/// Whether the device of `access` is among those of `granted`.
bool has_access(std::span<const CUmemAccessDesc> granted, const CUmemAccessDesc& access);
/// The least granule that the device accepts for memory of these properties.
std::size_t minimum_granule_bytes(const DeviceContext& context,
                                  const CUmemAllocationProp& properties);
/// The same for physical_properties().
std::size_t minimum_granule_bytes(const DeviceContext& context);

}  // namespace berth
