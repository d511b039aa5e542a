// SPDX-License-Identifier: Apache-2.0
// The memory of cuMemAlloc. An allocation of more than half a granule uses whole granules; smaller
// ones are packed, aligned to 512 bytes, into shared chunks of one granule. An empty chunk is
// freed. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "sim/device/context.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/memory/extent_allocator.hpp"

namespace berth::sim {

struct State;

class LinearMemory {
 public:
  /// The address; 0 if the device is out of memory.
  std::uint64_t allocate(State& state, const Context& context, std::uint64_t bytes);
  /// Frees `range`, an allocation of this object.
  void release(State& state, const Range& range);

 private:
  struct Chunk {
    PhysicalBlock* block;
    ExtentAllocator free;  // addresses
  };

  std::uint64_t allocate_whole(State& state, const Context& context, std::uint64_t bytes);
  std::uint64_t allocate_packed(State& state, const Context& context, std::uint64_t bytes);

  std::map<std::uint64_t, Chunk> chunks_;  // by start
  std::set<std::uint64_t> open_;           // starts of chunks that are not full
};

}  // namespace berth::sim
