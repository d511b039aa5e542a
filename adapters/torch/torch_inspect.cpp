// SPDX-License-Identifier: Apache-2.0
// What the allocator that is compiled for an installed PyTorch reports.
#include <algorithm>
#include <iterator>
#include <utility>

#include "torch/torch_memory.hpp"

namespace berth::torch {
namespace {

void add(Level& sum, const Gauge& gauge) {
  sum.current += gauge.current;
  sum.peak += gauge.peak;
}

void add(DeviceCounters& sum, const MemoryCounters& counters) {
  add(sum.bytes_requested, counters.bytes_requested);
  add(sum.bytes_allocated, counters.bytes_allocated);
  add(sum.bytes_active, counters.bytes_active);
  add(sum.bytes_reserved, counters.bytes_reserved);
  add(sum.blocks_allocated, counters.blocks_allocated);
  add(sum.blocks_pending, counters.blocks_pending);
  sum.segments_mapped += counters.segments_mapped;
  sum.segments_released += counters.segments_released;
  sum.out_of_memory += counters.out_of_memory;
  sum.waits += counters.deferred_free_waits;
}

void add(std::vector<Segment>& all, const MemorySnapshot& snapshot) {
  const PoolId pool = pool_id_of(snapshot.allocator);
  for (const SegmentInfo& segment : snapshot.segments) {
    all.push_back({pool, segment.address, segment.bytes, {}});
    std::transform(segment.blocks.begin(), segment.blocks.end(),
                   std::back_inserter(all.back().blocks), [](const BlockInfo& block) {
                     return Block{block.address,
                                  block.bytes,
                                  block.bytes_requested,
                                  block.data,
                                  block.state == BlockState::allocated,
                                  block.state == BlockState::pending};
                   });
  }
}

}  // namespace

DeviceCounters Memory::counters(int device) {
  DeviceCounters sum;
  const DeviceAllocator* const memory = used(device);
  if (memory == nullptr) return sum;
  add(sum, memory->counters());
  for (const MemorySnapshot& snapshot : memory->pool_snapshots()) {
    add(sum, snapshot.counters);
    const PoolId id = pool_id_of(snapshot.allocator);
    if (id == PoolId{}) continue;
    const Gauge& reserved = snapshot.counters.bytes_reserved;
    sum.pool_bytes_reserved.push_back({id, {reserved.current, reserved.peak}});
  }
  return sum;
}

void Memory::reset_peaks(int device) {
  if (DeviceAllocator* const memory = used(device)) memory->reset_peaks();
  pools_.reset_peaks(device);
}

std::size_t Memory::largest_free_block(int device) {
  const DeviceAllocator* const memory = used(device);
  return memory == nullptr ? 0 : memory->snapshot().largest_free_block_bytes;
}

std::vector<Segment> Memory::segments(int device) {
  std::vector<Segment> all;
  const DeviceAllocator* const memory = used(device);
  if (memory == nullptr) return all;
  add(all, memory->snapshot());
  for (const MemorySnapshot& snapshot : memory->pool_snapshots()) add(all, snapshot);
  return all;
}

}  // namespace berth::torch
