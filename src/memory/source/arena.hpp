// SPDX-License-Identifier: Apache-2.0
// One large range of device address space, into which physical memory is mapped granule by granule.
// Invariant: each granule has at most one physical handle, and those in use have access.
// Source: CUDA Driver API, "Virtual Memory Management".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device_context.hpp"
#include "memory/source/lone_mapping.hpp"
#include "memory/source/mapping_notices.hpp"

namespace berth {

/// Threads  One call at a time; different granules are independent.
class Arena {
 public:
  /// Reserves address space; `bytes` and `granule_bytes` are multiples of the device's minimum
  /// granule.
  /// Errors  DriverError.
  Arena(DeviceContext& context, std::size_t bytes, std::size_t granule_bytes,
        const MappingNotices& notices = {});
  /// Unmaps the remaining granules.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::uintptr_t address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t granule_bytes() const { return granule_bytes_; }
  [[nodiscard]] bool contains(std::uintptr_t address) const {
    return address - address_ < bytes_;  // wraps around to a large value below the arena
  }

  /// The memory behind a mapped granule, counted from the arena's beginning.
  [[nodiscard]] CUmemGenericAllocationHandle handle(std::size_t granule) const {
    return handles_[granule];
  }
  /// Those of the arena, for other mappings of its memory.
  [[nodiscard]] const MappingNotices& notices() const { return notices_; }
  /// The access that mappings allow: read and write, by the device and those granted access.
  [[nodiscard]] std::span<const CUmemAccessDesc> access() const { return access_; }
  /// Allows another device the same access to present and future mappings.
  /// Errors  DriverError: it may have access to some present mappings, and has none to future ones.
  void grant_access(const CUmemAccessDesc& user);

  /// Backs a range of unmapped granules with new physical memory, readable and writable by the
  /// device. False if the driver has no memory left. On failure nothing is mapped or leaked.
  /// Errors  DriverError. Those of the notices.
  bool map(std::uintptr_t address, std::size_t bytes);
  /// Unmaps a range of mapped granules and returns their memory. The device must be done with it.
  /// If the driver refuses a granule, this is reported, and the result is the refusal; the granule
  /// is stuck then: unused, with memory that map() uses again. A granule of hold() is stuck, too.
  DriverRefusal unmap(std::uintptr_t address, std::size_t bytes) noexcept;
  /// Whether the granule is stuck with all that its use needs, so that keep() accepts it.
  [[nodiscard]] bool is_usable(std::size_t granule) const {
    return stuck_[granule] == Remains::memory;
  }
  /// Announces a range of usable granules, which are in use again then. False if on_map throws,
  /// which is reported.
  bool keep(std::uintptr_t address, std::size_t bytes) noexcept;
  /// Tries again to return the memory of stuck granules, but those of hold(). Returns the last
  /// refusal.
  DriverRefusal retry_stuck() noexcept;
  /// The bytes of stuck granules, but those that are asleep.
  [[nodiscard]] std::size_t stuck_bytes() const {
    return (stuck_count_ - stuck_asleep_count_) * granule_bytes_;
  }
  void unmap_all() noexcept;

  /// Unmaps all granules in use and remembers them. The device must be done with them. Granules
  /// that the driver refuses are stuck; the result is the last refusal.
  DriverRefusal sleep() noexcept;
  /// The bytes that sleep() has returned.
  [[nodiscard]] std::size_t asleep_bytes() const {
    return (asleep_count_ - stuck_asleep_count_) * granule_bytes_;
  }
  /// The next call that would return the memory of `granule` keeps it, because it is mapped
  /// elsewhere: sleep(), unmap(), retry_stuck(), or map() or wake() that fails.
  void hold(std::size_t granule) noexcept { is_held_[granule] = true; }
  /// Ends hold() of all granules.
  void let_go() noexcept { is_held_.assign(is_held_.size(), false); }
  /// Backs the same granules with new memory. False if the driver has no memory left; the arena is
  /// still asleep then.
  /// Errors  DriverError, those of the notices: likewise.
  bool wake();

 private:
  /// Maps one granule, without access if it has new memory. On failure it is stuck, or has no
  /// memory.
  bool map_granule(std::size_t granule);
  bool map_granules(std::size_t first, std::size_t end);
  /// map(); granules of hold() stay held.
  bool map_held(std::uintptr_t address, std::size_t bytes);
  DriverRefusal unmap_granule(std::size_t granule) noexcept;
  DriverRefusal unmap_unless_held(std::size_t granule) noexcept;
  [[nodiscard]] bool is_stuck(std::size_t granule) const {
    return stuck_[granule] != Remains::nothing;
  }
  [[nodiscard]] bool is_mapped(std::size_t granule) const {
    return handles_[granule] != 0 && stuck_[granule] != Remains::handle;
  }
  void set_stuck(std::size_t granule, Remains remains) noexcept;
  /// Says of all granules that are in use that they are about to be unmapped.
  void withdraw_all() const noexcept;
  /// Calls visit(address, bytes) for granules side by side for which is_in(granule) is true.
  template <class IsIn, class Visit>
  void for_each_run(const IsIn& is_in, const Visit& visit) const;
  [[nodiscard]] std::size_t granule_at(std::uintptr_t address) const {
    return (address - address_) / granule_bytes_;
  }
  [[nodiscard]] CUdeviceptr address_of(std::size_t granule) const {
    return CUdeviceptr{address_ + granule * granule_bytes_};
  }

  DeviceContext& context_;
  const MappingNotices notices_;
  std::vector<CUmemAccessDesc> access_;
  const std::size_t bytes_;
  const std::size_t granule_bytes_;
  std::uintptr_t address_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;  ///< by granule; 0: no memory
  // By granule, allocated in advance because sleep() cannot fail.
  std::vector<bool> is_asleep_;  ///< to be mapped again
  std::vector<bool> is_held_;    ///< hold()
  std::vector<Remains> stuck_;   ///< what the driver refused to take back; nothing: not stuck
  std::size_t asleep_count_ = 0;
  std::size_t stuck_count_ = 0;
  std::size_t stuck_asleep_count_ = 0;  ///< both
};

}  // namespace berth
