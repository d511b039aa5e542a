// SPDX-License-Identifier: Apache-2.0
// What kind of memory an address belongs to: that decides how bytes travel.
#pragma once

#include <cuda.h>

#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"

#include "device/device_context.hpp"

namespace berth {

struct MemoryKind {
  enum class Type { pageable, pinned, device };

  Type type = Type::pageable;
  DeviceContext* device = nullptr;  ///< whose memory it is; null unless `device`
  void* pinned_block = nullptr;     ///< of berth's pinned allocator; null for other pinned memory

  [[nodiscard]] bool is_host() const { return type != Type::device; }
};

/// Asks the driver only about memory that is no live block of `pinned`.
/// Errors  DriverError. InvalidArgument: memory of a device that is not visible.
MemoryKind find_memory_kind(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                            const Driver& driver, const void* data);

}  // namespace berth
