// SPDX-License-Identifier: Apache-2.0
// What has been allocated since the start, on each device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace berth::torch {

/// Sizes of blocks are multiples of this.
inline constexpr std::size_t kBlockAlignment = 512;

inline std::size_t rounded(std::size_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

struct Totals {
  std::uint64_t allocations = 0;
  std::uint64_t bytes_requested = 0;
  std::uint64_t bytes_allocated = 0;  ///< after rounding
};

/// Each thread counts for itself, because a counter that threads share costs more than an
/// allocation.
/// Threads  Every function from any thread.
class AllocationTotals {
 public:
  static AllocationTotals& get();

  void add(int device, std::size_t bytes);
  Totals of(int device);

 private:
  struct Counts;
  class Lease;

  AllocationTotals() = default;
  static Counts& own();

  std::mutex mutex_;
  std::vector<Counts*> all_;   ///< never destroyed, because threads may count until the end
  std::vector<Counts*> idle_;  ///< of threads that have ended
};

}  // namespace berth::torch
