// SPDX-License-Identifier: Apache-2.0
// One physical allocation at an address range of its own.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device_context.hpp"

namespace berth {

/// Reserves `bytes` of address space, a multiple of the device's granule, maps all of `handle`
/// there, and grants `access`. Returns the address; 0 if the driver is out of memory or of address
/// space. The mapping keeps the memory, so `handle` may be released afterwards.
/// Errors  DriverError. Nothing is mapped or reserved then.
std::uintptr_t map_alone(DeviceContext& context, CUmemGenericAllocationHandle handle,
                         std::size_t bytes, std::span<const CUmemAccessDesc> access);

/// The same without access. Returns 0 where map_alone() does.
std::uintptr_t map_without_access(DeviceContext& context, CUmemGenericAllocationHandle handle,
                                  std::size_t bytes);

/// Undoes map_alone(). The device must be done with the memory. If the driver refuses, this is
/// reported, and the result is the refusal; the memory is still mapped then.
DriverRefusal unmap_alone(DeviceContext& context, std::uintptr_t address,
                          std::size_t bytes) noexcept;
/// The same, and releases `handle`. If the driver refuses that, the memory is mapped again; if it
/// refuses that too, the result is false, because nothing can return the memory.
DriverRefusal unmap_and_release(DeviceContext& context, CUmemGenericAllocationHandle handle,
                                std::uintptr_t address, std::size_t bytes,
                                std::span<const CUmemAccessDesc> access) noexcept;

/// Unmaps the memory of `handle` at `address`, and releases it, as unmap_and_release() does; keeps
/// the address space.
DriverRefusal unmap_pages(const Driver& driver, CUmemGenericAllocationHandle handle,
                          std::uintptr_t address, std::size_t bytes,
                          std::span<const CUmemAccessDesc> access) noexcept;

}  // namespace berth
