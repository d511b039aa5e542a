// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <algorithm>

namespace berth::torch {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

/// Freed: what was allocated and is not live. 0 if the program has memory of berth that PyTorch did
/// not ask for.
std::uint64_t freed(std::uint64_t allocated, const Level& live) {
  return allocated - std::min(allocated, live.current);
}

/// berth has no separate pools for small and for large blocks.
Stat& all(StatArray& stat) {
  return stat[static_cast<std::size_t>(StatType::AGGREGATE)];
}

void set(StatArray& stat, const Level& level) {
  all(stat).current = static_cast<std::int64_t>(level.current);
  all(stat).peak = static_cast<std::int64_t>(level.peak);
}

void set(StatArray& stat, const Level& level, std::uint64_t allocated, std::uint64_t freed) {
  set(stat, level);
  all(stat).allocated = static_cast<std::int64_t>(allocated);
  all(stat).freed = static_cast<std::int64_t>(freed);
}

Level sum(const Level& a, const Level& b) {
  return {a.current + b.current, a.peak + b.peak};
}

std::int64_t since(std::uint64_t now, std::uint64_t then) {
  return static_cast<std::int64_t>(now - std::min(now, then));
}

}  // namespace

Statistics::Accumulated Statistics::accumulated(int device) const {
  Accumulated now;
  // First, so that what is live then is among what has been allocated.
  now.counters = memory_.counters(device);
  now.allocated = AllocationTotals::get().of(device);
  now.freed.allocations = freed(now.allocated.allocations, now.counters.blocks_allocated);
  now.freed.bytes_requested = freed(now.allocated.bytes_requested, now.counters.bytes_requested);
  now.freed.bytes_allocated = freed(now.allocated.bytes_allocated, now.counters.bytes_allocated);
  return now;
}

DeviceStats Statistics::of(int device) {
  const std::lock_guard lock(mutex_);
  const Accumulated now = accumulated(device);
  const Accumulated& then = at_reset_[device];
  const DeviceCounters& counters = now.counters;
  const auto set_since = [&](StatArray& stat, const Level& level, auto Totals::*total) {
    set(stat, level, now.allocated.*total - then.allocated.*total,
        now.freed.*total - std::min(now.freed.*total, then.freed.*total));
  };
  DeviceStats stats;
  set_since(stats.allocation, counters.blocks_allocated, &Totals::allocations);
  set_since(stats.requested_bytes, counters.bytes_requested, &Totals::bytes_requested);
  set_since(stats.allocated_bytes, counters.bytes_allocated, &Totals::bytes_allocated);
  set(stats.active, sum(counters.blocks_allocated, counters.blocks_pending));
  set(stats.active_bytes, counters.bytes_active);
  set(stats.reserved_bytes, counters.bytes_reserved);
  for (const auto& [id, reserved] : counters.pool_bytes_reserved)
    set(stats.reserved_bytes_by_private_pools[id], reserved);
  stats.num_ooms = since(counters.out_of_memory, then.counters.out_of_memory);
  stats.num_sync_all_streams = since(counters.waits, then.counters.waits);
  stats.num_device_alloc = since(counters.segments_mapped, then.counters.segments_mapped);
  stats.num_device_free = since(counters.segments_released, then.counters.segments_released);
  stats.max_split_size = -1;  // no limit
  return stats;
}

void Statistics::reset_accumulated(int device) {
  const std::lock_guard lock(mutex_);
  at_reset_[device] = accumulated(device);
}

}  // namespace berth::torch
