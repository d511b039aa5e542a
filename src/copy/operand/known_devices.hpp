// SPDX-License-Identifier: Apache-2.0
// Remembers the device of addresses that have been queried. A query would add half to the cost of a
// small copy.
//
// The memory may have been freed since, and the address may belong to something else now. This is
// harmless for copies by the driver, which looks at the address itself, and copies or refuses. The
// kind of host memory is not remembered, because it decides when berth itself accesses it: memory
// that was pageable may have been pinned since.
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

  /// Null if the device is not known.
  [[nodiscard]] DeviceContext* find(const void* data) const {
    const std::uint64_t granule = granule_of(data);
    const std::uint64_t entry = entry_of(granule).load(std::memory_order_relaxed);
    if (entry >> kOrdinalBits != granule || (entry & kOrdinalMask) == 0) return nullptr;
    return &registry_.context(Device::cuda(static_cast<int>((entry & kOrdinalMask) - 1)));
  }
  /// Remembers what the driver has reported about `data`.
  void note(const void* data, const MemoryPlace& place) {
    const std::uint64_t granule = granule_of(data);
    const bool is_all_of_it =
        place.begin <= granule << kGranuleBits && place.end >= (granule + 1) << kGranuleBits;
    if (place.kind.type != MemoryKind::Type::device || !is_all_of_it) return;
    const auto ordinal = static_cast<std::uint64_t>(place.kind.device->device().ordinal());
    entry_of(granule).store(granule << kOrdinalBits | (ordinal + 1), std::memory_order_relaxed);
  }
  /// Returns whether the address was known.
  bool forget(const void* data) {
    if (find(data) == nullptr) return false;
    entry_of(granule_of(data)).store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  // The granule of mappings: nothing smaller changes its owner within a device's memory.
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
