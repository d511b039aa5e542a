// SPDX-License-Identifier: Apache-2.0
// What cuMemAlloc gives. An allocation of more than half a granule takes whole granules; smaller
// ones are packed, at 512 bytes, into shared chunks of one granule. A chunk lives while something
// is in it. Guarded by sim::mutex.
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
  /// The address; 0 where the device has no room.
  std::uint64_t allocate(State& state, const Context& context, std::uint64_t bytes);
  /// Ends `range`, an allocation made here.
  void release(State& state, const Range& range);

 private:
  struct Chunk {
    PhysicalBlock* block;
    ExtentAllocator free;  // addresses
  };

  std::uint64_t allocate_whole(State& state, const Context& context, std::uint64_t bytes);
  std::uint64_t allocate_packed(State& state, const Context& context, std::uint64_t bytes);

  std::map<std::uint64_t, Chunk> chunks_;  // by start
  std::set<std::uint64_t> open_;           // starts of those that are not full
};

}  // namespace berth::sim
