// SPDX-License-Identifier: Apache-2.0
// The kind of memory at an address, which determines the path of a copy.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "berth/device_registry.hpp"
#include "berth/host_allocator.hpp"
#include "berth/pinned_allocator.hpp"

#include "copy/operand/pinned_block.hpp"
#include "device/device_context.hpp"

namespace berth {

struct MemoryKind {
  enum class Type {
    pageable,
    pinned,
    device,
    managed,  ///< accessible to all devices and the host; copied by the devices
  };

  Type type = Type::pageable;
  DeviceContext* device = nullptr;  ///< the owner of device memory; otherwise null
  PinnedBlock pinned;               ///< a block of berth's; empty for other pinned memory

  /// Whether it is pageable or pinned host memory.
  [[nodiscard]] bool is_host() const { return is_pageable() || is_pinned(); }
  [[nodiscard]] bool is_pageable() const { return type == Type::pageable; }
  [[nodiscard]] bool is_pinned() const { return type == Type::pinned; }
  /// Whether type and device are equal.
  [[nodiscard]] bool matches(const MemoryKind& other) const {
    return type == other.type && device == other.device;
  }
};

/// One side of a copy: its address and the kind of its memory.
struct MemorySide {
  std::byte* data;
  MemoryKind kind;
};

/// The allocation that contains an address.
struct AllocationInfo {
  MemoryKind kind;
  std::uintptr_t begin = 0;  ///< 0 for pageable memory, whose allocation is unknown
  std::uintptr_t end = 0;    ///< past the end; equal to `begin` if unknown
};

[[noreturn]] void refuse_beyond(const AllocationInfo& place, const void* data, std::size_t bytes,
                                std::string_view name);
/// Checks a range that begins at `data`, in the allocation `place`. `name` is used in the error
/// message.
/// Errors  InvalidArgument: the range exceeds a pinned block of berth's. Registrations and other
///         memory are not checked.
inline void require_within(const AllocationInfo& place, const void* data, std::size_t bytes,
                           std::string_view name) {
  if (place.kind.pinned.data == nullptr || place.end == place.begin) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (begin >= place.end || bytes > place.end - begin) refuse_beyond(place, data, bytes, name);
}

/// The allocators of host memory of the copier's Runtime, whose records say what they handed out.
struct OwnHostMemory {
  const PinnedAllocator& pinned;
  HostAllocator& host;
};

/// The allocation in which the range of `bytes` at `data` begins. Makes one driver call, or none
/// for a live block or a registration of `own.pinned` and for a range in one live block of
/// `own.host`. For memory that is mapped by granules, returns the whole address reservation.
/// Errors  DriverError. InvalidArgument: memory of a device that is not visible; pinned memory of
///         any Runtime that is not in a live block.
AllocationInfo find_allocation(const DeviceRegistry& registry, const OwnHostMemory& own,
                               const Driver& driver, const void* data, std::size_t bytes);
/// Whether the driver allocated, mapped or registered the memory. Makes one driver call, cheaper
/// than that of find_allocation().
/// Errors  DriverError.
bool is_known_to_driver(const Driver& driver, const void* data);
/// The live block or registration of `pinned` at `data`; nullopt if there is none. No driver call.
std::optional<AllocationInfo> find_pinned_allocation(const PinnedAllocator& pinned,
                                                     const void* data);
/// Whether the memory was pinned by `own` for its blocks, live or free, or by another Runtime. No
/// driver call.
bool is_pinned_by_runtime(const PinnedAllocator& own, const void* data);

}  // namespace berth
