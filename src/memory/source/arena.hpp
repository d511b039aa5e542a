// SPDX-License-Identifier: Apache-2.0
// One large range of device address space, into which physical memory is mapped granule by granule.
// Invariant: each granule has at most one physical handle, and has access exactly while it has one.
// Source: CUDA Driver API, "Virtual Memory Management".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device_context.hpp"

namespace berth {

/// Whether the device and the driver can map memory at all.
bool supports_virtual_memory(const DeviceContext& context);
/// Reading and writing by that device.
CUmemAccessDesc access_by(const DeviceContext& user);
/// The least granule that the device accepts.
std::size_t minimum_granule_bytes(const DeviceContext& context);

/// Threads  One call at a time; different granules are independent.
class Arena {
 public:
  /// Reserves address space; `bytes` and `granule_bytes` are multiples of the device's minimum
  /// granule.
  /// Errors  DriverError.
  Arena(DeviceContext& context, std::size_t bytes, std::size_t granule_bytes);
  /// Unmaps what is left.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::uintptr_t address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t granule_bytes() const { return granule_bytes_; }
  [[nodiscard]] bool contains(std::uintptr_t address) const {
    return address - address_ < bytes_;  // wraps around below the arena, and is large then
  }

  /// The memory behind a mapped granule, counted from the arena's beginning.
  [[nodiscard]] CUmemGenericAllocationHandle handle(std::size_t granule) const {
    return handles_[granule];
  }
  /// What mappings of its memory allow: reading and writing, by the device and by those let in.
  [[nodiscard]] std::span<const CUmemAccessDesc> access() const { return access_; }
  /// Allows it to another device, for what is mapped and for what will be.
  /// Errors  DriverError: it has access to some of what is mapped, perhaps, and to nothing that
  ///         will be.
  void grant_access(const CUmemAccessDesc& user);

  /// Backs a range of unmapped granules with new physical memory, readable and writable by the
  /// device. False where the driver has no memory left. On failure nothing is mapped, nothing lost.
  /// Errors  DriverError.
  bool map(std::uintptr_t address, std::size_t bytes);
  /// Unmaps a range of mapped granules and gives their memory back. The device must be done with
  /// it.
  void unmap(std::uintptr_t address, std::size_t bytes) noexcept;
  void unmap_all() noexcept;

  /// Unmaps all that is mapped, and remembers where that was. The device must be done with it.
  /// Returns the bytes that the driver has back: a granule that it refuses to unmap keeps its
  /// memory.
  std::size_t sleep() noexcept;
  /// The next sleep() keeps the memory of `granule`, which is mapped elsewhere.
  void hold(std::size_t granule) noexcept { is_held_[granule] = true; }
  /// Backs the same granules with new memory. False if the driver has none left: asleep as before
  /// then.
  /// Errors  DriverError: likewise.
  bool wake();

 private:
  /// Maps one granule; on failure it holds nothing.
  bool map_granule(std::size_t granule);
  bool map_granules(std::size_t first, std::size_t end);
  void unmap_granule(std::size_t granule) noexcept;
  [[nodiscard]] std::size_t granule_at(std::uintptr_t address) const {
    return (address - address_) / granule_bytes_;
  }

  DeviceContext& context_;
  std::vector<CUmemAccessDesc> access_;
  const std::size_t bytes_;
  const std::size_t granule_bytes_;
  std::uintptr_t address_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;  ///< by granule; 0 where unmapped
  // By granule, as memory cannot be had where they are needed.
  std::vector<bool> is_asleep_;  ///< to be mapped again
  std::vector<bool> is_held_;    ///< the next sleep() keeps its memory
  std::vector<bool> is_stuck_;   ///< the driver refused to unmap it; still usable
  std::size_t asleep_count_ = 0;
};

}  // namespace berth
