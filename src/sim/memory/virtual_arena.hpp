// SPDX-License-Identifier: Apache-2.0
// Device addresses: ranges of this process's address space without access, so that host code that
// dereferences a device pointer faults. A released address stays in the arena, so that a stale
// pointer can be distinguished from a host pointer. Guarded by sim::mutex.
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

  /// At `hint` if it is free and aligned, otherwise at any address; nullopt if the system is out of
  /// memory.
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

  /// A stretch with space for `bytes` at `alignment`; null if the system fails.
  Stretch* grow(std::uint64_t bytes, std::uint64_t alignment);
  Stretch* stretch_of(std::uint64_t address);

  std::map<std::uint64_t, Stretch> stretches_;  // by start
};

}  // namespace berth::sim
