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

/// What a return of mapped memory to the driver has left.
enum class Remains : std::uint8_t {
  nothing,
  handle,   ///< memory that is no longer mapped at its address
  mapping,  ///< memory at its address, without access
  memory,   ///< memory at its address, as before
};
struct Return {
  DriverRefusal refusal{};  ///< the last one, reported; none if nothing remains
  Remains remains = Remains::nothing;
};

/// Unmaps the memory of `handle` at `address`, and releases `handle`. If the driver refuses that,
/// the memory is mapped again with `access`. The device must be done with the memory.
Return unmap_and_release(const Driver& driver, CUmemGenericAllocationHandle handle,
                         std::uintptr_t address, std::size_t bytes,
                         std::span<const CUmemAccessDesc> access) noexcept;
/// The same for memory that is not mapped.
Return release(const Driver& driver, CUmemGenericAllocationHandle handle) noexcept;

}  // namespace berth
