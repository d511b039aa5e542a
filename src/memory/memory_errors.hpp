// SPDX-License-Identifier: Apache-2.0
// Messages of allocation failures. They contain the numbers that distinguish fragmentation, a limit
// and exhaustion.
#pragma once

#include <cstddef>
#include <string>

#include "berth/memory_counters.hpp"

#include "heap/block.hpp"
#include "memory/memory_budget.hpp"

namespace berth {

struct OutOfMemoryNumbers {
  std::string allocator;
  std::size_t bytes_requested;
  MemoryCounters counters;
  std::size_t bytes_reserved_max;  ///< MemoryBudget::kNoLimit: none
  std::size_t bytes_reserved_by_others = 0;
  std::size_t headroom_bytes = 0;
  std::size_t granule_bytes = 0;  ///< of the memory that the driver gives; 0: it has none
  std::size_t largest_free_block_bytes;
  std::size_t driver_free_bytes;  ///< 0, as driver_total_bytes, if the driver was not queried
  std::size_t driver_total_bytes;
  bool is_refused_by_driver = false;
};

std::string describe_out_of_memory(const OutOfMemoryNumbers& numbers);

struct RefusedWakeNumbers {
  std::string allocator;
  std::size_t bytes_needed;
  std::size_t bytes_reserved_max;  ///< MemoryBudget::kNoLimit: none
  std::size_t bytes_left;          ///< within the limit and the headroom
  std::size_t headroom_bytes;
  std::size_t driver_free_bytes;  ///< 0, as driver_total_bytes, if the driver does not answer
  std::size_t driver_total_bytes;
};

std::string describe_refused_wake(const RefusedWakeNumbers& numbers);

/// The bound of the largest possible request.
enum class Capacity {
  limited,          ///< MemoryLimits
  beside_headroom,  ///< DeviceAllocatorOptions::headroom_bytes
  of_the_machine,   ///< all memory of the machine
};

/// A request that could not be served even if all memory were free. `capacity` is the bound that
/// `capacity_bytes` is.
std::string describe_impossible_request(const std::string& allocator, std::size_t bytes,
                                        std::size_t capacity_bytes, Capacity capacity);

/// Completes the name of an allocator, for a request on a captured stream.
std::string describe_capture_without_pool();

/// A pointer that is not a live block; `covering` is the block that it points into, if any.
std::string describe_foreign_pointer(const std::string& allocator, const char* action,
                                     const void* data, const Block* covering);
/// The same with a description of the pointer, one of the next three.
std::string describe_refused_pointer(const std::string& allocator, const char* action,
                                     const void* data, const std::string& what);
inline constexpr const char* kNotOfThisAllocator = "it is not memory of this allocator";
inline constexpr const char* kFreedAndPending =
    "it was freed before, and its memory awaits the streams that use it";
std::string describe_inside(const void* data, const void* block);

}  // namespace berth
