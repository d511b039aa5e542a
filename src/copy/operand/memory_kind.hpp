// SPDX-License-Identifier: Apache-2.0
// The kind of memory at an address, which decides how it is copied.
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
  DeviceContext* device = nullptr;  ///< the owner of device memory; else null
  PinnedBlock pinned;               ///< a block of berth's; none for other pinned memory

  /// Whether it is host memory, pageable or pinned.
  [[nodiscard]] bool is_host() const { return is_pageable() || is_pinned(); }
  [[nodiscard]] bool is_pageable() const { return type == Type::pageable; }
  [[nodiscard]] bool is_pinned() const { return type == Type::pinned; }
  /// Whether type and device are the same.
  [[nodiscard]] bool is_like(const MemoryKind& other) const {
    return type == other.type && device == other.device;
  }
};

/// One side of a copy: its address, and the kind of all of its memory.
struct MemorySide {
  std::byte* data;
  MemoryKind kind;
};

/// The allocation that contains an address.
struct MemoryPlace {
  MemoryKind kind;
  std::uintptr_t begin = 0;  ///< 0 for pageable memory, whose allocation is not known
  std::uintptr_t end = 0;    ///< past the end; equal to `begin` if it is not known
};

[[noreturn]] void refuse_beyond(const MemoryPlace& place, const void* data, std::size_t bytes,
                                std::string_view name);
/// For a range that begins at `data`, in `place`. `name` is for the error.
/// Errors  InvalidArgument: it runs past the end of a pinned block. Registrations and memory that
///         berth does not manage are not checked.
inline void require_within(const MemoryPlace& place, const void* data, std::size_t bytes,
                           std::string_view name) {
  if (place.kind.pinned.data == nullptr || place.end == place.begin) return;
  if (bytes > place.end - reinterpret_cast<std::uintptr_t>(data))
    refuse_beyond(place, data, bytes, name);
}

/// The allocators of host memory of the copier's Runtime, whose records say what they handed out.
struct OwnHostMemory {
  const PinnedAllocator& pinned;
  HostAllocator& host;
};

/// Where the range of `bytes` at `data` begins. One driver call; none for a live block or a
/// registration of `own.pinned`, nor if the range lies in one live block of `own.host`. The place
/// of memory that is mapped by granules is the whole reservation.
/// Errors  DriverError. InvalidArgument: memory of a device that is not visible; pinned memory of
///         berth's, of whichever Runtime, that is no live block.
MemoryPlace find_memory_place(const DeviceRegistry& registry, const OwnHostMemory& own,
                              const Driver& driver, const void* data, std::size_t bytes);
/// The live block or registration of `pinned` at `data`; nullopt if there is none. No driver call.
std::optional<MemoryPlace> find_pinned_place(const PinnedAllocator& pinned, const void* data);
/// Whether `own` has pinned this memory for its blocks, live or free, or another Runtime has pinned
/// it. No driver call.
bool is_pinned_by_a_runtime(const PinnedAllocator& own, const void* data);
inline MemoryKind find_memory_kind(const DeviceRegistry& registry, const OwnHostMemory& own,
                                   const Driver& driver, const void* data, std::size_t bytes) {
  return find_memory_place(registry, own, driver, data, bytes).kind;
}

}  // namespace berth
