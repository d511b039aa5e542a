// SPDX-License-Identifier: Apache-2.0
// Advice about managed memory, and its location, by page. Memory without advice that has not moved
// has no entry. Guarded by sim::mutex.
// Source: CUDA Driver API, cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <optional>

#include "sim/memory/address_space.hpp"

namespace berth::sim {

/// The advice of a page.
struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0};
  CUmemLocation prefetched = {CU_MEM_LOCATION_TYPE_INVALID, 0};  ///< of the last call
  DeviceSet accessed_by = 0;                                     ///< by ordinal
  bool accessed_by_host = false;
  int resident = -1;  ///< the slot of the device that has it; -1: the host
};

class ManagedAdvice {
 public:
  /// Calls `change(advice)` for all pages of [start, start + bytes).
  template <class Change>
  void change(std::uint64_t start, std::uint64_t bytes, Change&& change) {
    const std::uint64_t end = page_end(start + bytes);
    for (std::uint64_t at = page_start(start); at < end;) {
      Stretch& stretch = stretch_at(at, end);
      change(stretch.advice);
      at = stretch.end;
    }
  }
  /// Calls `visit(advice, bytes)` for all pages of [start, start + bytes).
  template <class Visit>
  void visit(std::uint64_t start, std::uint64_t bytes, Visit&& visit) const {
    const std::uint64_t end = page_end(start + bytes);
    for (std::uint64_t at = page_start(start); at < end;) {
      const Stretch stretch = read(at, end);
      visit(stretch.advice, stretch.end - at);
      at = stretch.end;
    }
  }
  /// The slot of the device that has the page of `address`; nullopt: the host.
  [[nodiscard]] std::optional<int> device_of(std::uint64_t address) const {
    const int slot = read(address, address + 1).advice.resident;
    return slot < 0 ? std::nullopt : std::optional(slot);
  }
  /// The memory was freed.
  void forget(std::uint64_t start, std::uint64_t bytes);

  static constexpr std::uint64_t kPage = 4096;

 private:
  struct Stretch {
    std::uint64_t end;
    Advice advice;
  };

  static std::uint64_t page_start(std::uint64_t address) { return address & ~(kPage - 1); }
  static std::uint64_t page_end(std::uint64_t address) { return page_start(address + kPage - 1); }

  /// An entry that begins at `at`, and ends at or before `end`.
  Stretch& stretch_at(std::uint64_t at, std::uint64_t end);
  /// The advice from `at`, up to at most `end`.
  [[nodiscard]] Stretch read(std::uint64_t at, std::uint64_t end) const;
  /// Splits the entry that contains `at`, if there is one.
  void split(std::uint64_t at);

  std::map<std::uint64_t, Stretch> stretches_;  // by start; they do not overlap
};

}  // namespace berth::sim
