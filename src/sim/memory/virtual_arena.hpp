// SPDX-License-Identifier: Apache-2.0
// Device addresses: stretches of this process's address space without access, so that host code
// that touches a device pointer faults. An address that was given back stays in the arena, where a
// stale pointer is told from a host pointer. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "sim/memory/extent_allocator.hpp"

namespace berth::sim {

class VirtualArena {
 public:
  VirtualArena() = default;
  ~VirtualArena();
  VirtualArena(const VirtualArena&) = delete;
  VirtualArena& operator=(const VirtualArena&) = delete;

  /// At `hint` if that is free and aligned, otherwise anywhere; nullopt where the system has no
  /// room.
  std::optional<std::uint64_t> reserve(std::uint64_t bytes, std::uint64_t alignment,
                                       std::uint64_t hint = 0);
  void release(std::uint64_t start, std::uint64_t bytes);

  /// Whether `address` is, or was, a device address.
  [[nodiscard]] bool contains(std::uint64_t address) const;

 private:
  struct Stretch {
    std::uint64_t bytes;
    ExtentAllocator free;
  };

  /// A stretch with room for `bytes` at `alignment`; null where the system refuses.
  Stretch* grow(std::uint64_t bytes, std::uint64_t alignment);
  Stretch* stretch_of(std::uint64_t address);

  std::map<std::uint64_t, Stretch> stretches_;  // by start
};

}  // namespace berth::sim
