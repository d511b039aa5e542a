// SPDX-License-Identifier: Apache-2.0
// Caches the device of queried addresses. A driver query would add half to the cost of a small
// copy.
//
// An entry may be stale: the memory may have been freed, and the address may have been reused. This
// is harmless for copies by the driver, which validates the address itself; a copy that is refused
// because of an entry queries the driver, and tries again. The kind of host memory is not cached,
// because it decides when berth itself accesses the memory, and pageable memory may have been
// pinned since the query.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "berth/device_registry.hpp"

#include "copy/operand/memory_kind.hpp"

namespace berth {

/// Threads  Safe from any thread.
class KnownDevices {
 public:
  explicit KnownDevices(const DeviceRegistry& registry) : registry_(registry) {}

  /// Null if the address is not cached.
  [[nodiscard]] DeviceContext* find(const void* data) const {
    const std::uint64_t granule = granule_of(data);
    const std::uint64_t entry = entry_of(granule).load(std::memory_order_relaxed);
    if (entry >> kOrdinalBits != granule || (entry & kOrdinalMask) == 0) return nullptr;
    return &registry_.context(Device::cuda(static_cast<int>((entry & kOrdinalMask) - 1)));
  }
  /// Caches the driver's report about `data`.
  void note(const void* data, const AllocationInfo& place) {
    const std::uint64_t granule = granule_of(data);
    const bool covers_granule =
        place.begin <= granule << kGranuleBits && place.end >= (granule + 1) << kGranuleBits;
    if (place.kind.type != MemoryKind::Type::device || !covers_granule) return;
    const auto ordinal = static_cast<std::uint64_t>(place.kind.device->device().ordinal());
    entry_of(granule).store(granule << kOrdinalBits | (ordinal + 1), std::memory_order_relaxed);
  }
  /// Removes the address. Returns whether it was cached.
  bool forget(const void* data) {
    if (find(data) == nullptr) return false;
    entry_of(granule_of(data)).store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  // The granule of mappings: no smaller range of a device's memory changes its owner.
  static constexpr int kGranuleBits = 21;
  static constexpr int kOrdinalBits = 8;
  static constexpr std::uint64_t kOrdinalMask = (1U << kOrdinalBits) - 1;
  static constexpr std::size_t kEntries = 1024;

  static std::uint64_t granule_of(const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) >> kGranuleBits;
  }
  [[nodiscard]] std::atomic<std::uint64_t>& entry_of(std::uint64_t granule) const {
    return entries_[granule % kEntries];
  }

  const DeviceRegistry& registry_;
  mutable std::array<std::atomic<std::uint64_t>, kEntries> entries_{};
};

}  // namespace berth
