// SPDX-License-Identifier: Apache-2.0
// Requests that are refused, and the numbers that explain why.
#include <algorithm>
#include <cstddef>

#include "berth/error.hpp"

#include "memory/caching_allocator.hpp"
#include "memory/memory_errors.hpp"

namespace berth {
namespace {

/// 0 if the driver does not answer.
struct DriverMemory {
  std::size_t free = 0;
  std::size_t total = 0;
};

DriverMemory query_driver_memory(DeviceContext& context) {
  DriverMemory memory;
  const ContextScope scope(context);
  context.driver().try_mem_get_info(&memory.free, &memory.total);
  return memory;
}

}  // namespace

void CachingAllocator::refuse_impossible(const Request& request) {
  const std::size_t capacity = reserve_.capacity_bytes();
  // Memory beyond a limit that was lowered can serve requests too.
  if (request.bytes_requested <= std::max(capacity, reserve_.budget().reserved())) return;
  const MutexLock lock(heap_.mutex);
  ++heap_.counters.out_of_memory;
  if (request.bytes_requested <= reserve_.source_capacity_bytes())
    ++heap_.counters.limit_rejections;
  const bool is_limited = capacity < reserve_.source_capacity_bytes();
  const bool is_beside_others = is_limited && reserve_.budget().limit() > capacity;
  throw OutOfMemory(describe_impossible_request(name(), request.bytes_requested, capacity,
                                                is_beside_others ? Capacity::beside_headroom
                                                : is_limited     ? Capacity::limited
                                                                 : Capacity::of_the_machine));
}

void CachingAllocator::fail(const Request& request) {
  const DriverMemory driver =
      request.stream ? query_driver_memory(request.stream->context()) : DriverMemory();
  const MutexLock lock(heap_.mutex);
  heap_.apply_ledgers();
  ++heap_.counters.out_of_memory;
  throw OutOfMemory(
      describe_out_of_memory({.allocator = name(),
                              .bytes_requested = request.bytes_requested,
                              .counters = heap_.counters,
                              .bytes_reserved_max = reserve_.budget().limit(),
                              .bytes_reserved_by_others = reserve_.budget().reserved_by_others(),
                              .headroom_bytes = reserve_.headroom_bytes(),
                              .granule_bytes = heap_.blocks.granule_bytes(),
                              .largest_free_block_bytes = heap_.blocks.largest_free_bytes(),
                              .driver_free_bytes = driver.free,
                              .driver_total_bytes = driver.total,
                              .is_refused_by_driver = request.refused_by_driver}),
      request.refused_by_driver ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
}

void CachingAllocator::fail_to_wake(DeviceContext& context, std::size_t bytes) {
  const DriverMemory driver = query_driver_memory(context);
  throw OutOfMemory(describe_refused_wake({.allocator = name(),
                                           .bytes_needed = bytes,
                                           .bytes_reserved_max = reserve_.budget().limit(),
                                           .bytes_left = reserve_.budget().room(),
                                           .headroom_bytes = reserve_.headroom_bytes(),
                                           .driver_free_bytes = driver.free,
                                           .driver_total_bytes = driver.total}));
}

}  // namespace berth
