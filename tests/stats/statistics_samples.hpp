// SPDX-License-Identifier: Apache-2.0
// Statistics in which every field differs from every other, and all add up.
#pragma once

#include <cstdint>
#include <optional>

#include "berth/bytes.hpp"
#include "berth/statistics.hpp"

namespace berth::test {

inline CUstream_st* stream_at(std::uintptr_t address) {
  return reinterpret_cast<CUstream_st*>(address);
}

/// Two segments: an allocated, a pending and a free block; a free and an allocated one.
inline MemorySnapshot snapshot_that_adds_up() {
  constexpr std::uintptr_t first = 0x7f0000000000;
  constexpr std::uintptr_t second = 0x7f0010000000;
  CUstream_st* const stream = stream_at(0x1000);
  MemorySnapshot snapshot;
  snapshot.allocator = "cuda:0";
  snapshot.segments = {{first,
                        4_MiB,
                        {{first, 1_MiB, 1000, BlockState::allocated, nullptr},
                         {first + 1_MiB, 1_MiB, 900, BlockState::pending, stream},
                         {first + 2_MiB, 2_MiB, 0, BlockState::free, stream}}},
                       {second,
                        8_MiB,
                        {{second, 5_MiB, 0, BlockState::free, std::nullopt},
                         {second + 5_MiB, 3_MiB, 3_MiB, BlockState::allocated, stream}}}};
  snapshot.largest_free_block_bytes = 5_MiB;
  MemoryCounters& counters = snapshot.counters;
  counters.bytes_requested = {3_MiB + 1000, 6_MiB};
  counters.bytes_allocated = {4_MiB, 7_MiB};
  counters.bytes_active = {5_MiB, 8_MiB};
  counters.bytes_reserved = {11_MiB + 512_KiB, 15_MiB};
  counters.blocks_allocated = {2, 20};
  counters.blocks_pending = {1, 10};
  counters.blocks_free = {2, 30};
  counters.bytes_metadata = {96_KiB, 192_KiB};
  counters.bytes_asleep = {1_MiB, 4_MiB};
  counters.blocks_in_graphs = {1, 3};
  counters.bytes_unreturnable = {512_KiB, 1_MiB};
  counters.allocations = 1234567;
  counters.frees = 1234565;
  counters.frees_deferred = 44;
  counters.frees_reclaimed = 43;
  return snapshot;
}

inline Statistics sample_statistics() {
  Statistics statistics;
  statistics.driver = {"sim", true, "", 12020};
  statistics.devices = {
      {0, 1, "GPU-a", "00000000:1A:00.0", "NVIDIA H100 80GB HBM3", 80_GiB},
      {1, std::nullopt, "GPU-b", "00000000:1B:00.0", "NVIDIA GeForce RTX 4090", 24_GiB}};
  MemorySnapshot pinned;
  pinned.allocator = "pinned";
  statistics.allocators = {snapshot_that_adds_up(), pinned};
  statistics.driver_calls = {{"cuMemCreate", 12}, {"cuEventRecord", 3456}, {"cuMemMap", 78}};
  statistics.copies = {.copies_direct = 11,
                       .copies_staged = 12,
                       .copies_by_driver = 16,
                       .copies_host = 13,
                       .bytes_copied = 14_MiB,
                       .staging_waits = 15,
                       .staging_bytes = 17};
  return statistics;
}

}  // namespace berth::test
