// SPDX-License-Identifier: Apache-2.0
// What kind of memory an address belongs to: that decides how bytes travel.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "copy/operand/pinned_block.hpp"
#include "device/device_context.hpp"

namespace berth {

struct MemoryKind {
  enum class Type {
    pageable,
    pinned,
    device,
    managed,  ///< of every device and the host; berth leaves it to the devices
  };

  Type type = Type::pageable;
  DeviceContext* device = nullptr;  ///< whose memory it is; null unless `device`
  PinnedBlock pinned;               ///< of berth's; none for other pinned memory

  /// Whether it is the host alone that has it.
  [[nodiscard]] bool is_host() const { return is_pageable() || is_pinned(); }
  [[nodiscard]] bool is_pageable() const { return type == Type::pageable; }
  [[nodiscard]] bool is_pinned() const { return type == Type::pinned; }
  /// Of the same type, and the same device's.
  [[nodiscard]] bool is_like(const MemoryKind& other) const {
    return type == other.type && device == other.device;
  }
};

/// One side of a copy: where it begins, and of which kind all of it is.
struct MemorySide {
  std::byte* data;
  MemoryKind kind;
};

/// An allocation that an address belongs to.
struct MemoryPlace {
  MemoryKind kind;
  std::uintptr_t begin = 0;  ///< 0 for pageable memory, of which nobody knows
  std::uintptr_t end = 0;    ///< behind it; `begin` where that is not known
};

[[noreturn]] void refuse_beyond(const MemoryPlace& place, const void* data, std::size_t bytes,
                                std::string_view name);
/// For a range that begins at `data`, in `place`. `name` is for the error.
/// Errors  InvalidArgument: it runs past the end of a pinned block. Of a registration, and of
///         memory of others, nothing is checked.
inline void require_within(const MemoryPlace& place, const void* data, std::size_t bytes,
                           std::string_view name) {
  if (place.kind.pinned.data == nullptr || place.end == place.begin) return;
  if (bytes > place.end - reinterpret_cast<std::uintptr_t>(data))
    refuse_beyond(place, data, bytes, name);
}

/// Asks the driver only about memory that is no live block of `pinned`, and with one call. Of
/// memory that is mapped by granules the place is the reservation.
/// Errors  DriverError. InvalidArgument: memory of a device that is not visible; pinned memory of
///         berth's, of whichever Runtime, that is no live block.
MemoryPlace find_memory_place(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                              const Driver& driver, const void* data);
/// Of a live block or registration of `pinned`; nullopt if there is none. No driver call.
std::optional<MemoryPlace> find_pinned_place(const PinnedAllocator& pinned, const void* data);
/// Whether it lies in memory that the caller's own allocator has pinned for blocks, live or free,
/// or that another Runtime has pinned. No driver call.
bool is_pinned_by_a_runtime(const PinnedAllocator& own, const void* data);
inline MemoryKind find_memory_kind(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                                   const Driver& driver, const void* data) {
  return find_memory_place(registry, pinned, driver, data).kind;
}

}  // namespace berth
