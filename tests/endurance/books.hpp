// SPDX-License-Identifier: Apache-2.0
// What a program knows of its own blocks: the model that the allocator is held against.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/device_allocator.hpp"
#include "berth/event_pool.hpp"

#include "endurance/machine.hpp"

namespace berth::endurance {

[[nodiscard]] inline std::size_t rounded(std::size_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

struct LiveBlock {
  std::uintptr_t address;
  std::size_t bytes;   ///< as asked
  StreamPlace* place;  ///< of its stream; null where that is another thread's
  std::uint32_t generation;
  std::optional<unsigned char> tag{};  ///< what its first and last bytes are, where they were set
  bool used_elsewhere = false;  ///< another stream reads it, and nobody may write it any more

  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(address); }
  /// Whether work may be submitted to its stream.
  [[nodiscard]] bool has_stream() const {
    return place != nullptr && place->generation == generation;
  }
};

/// A block on its way to another thread, and where its work ends.
struct Parcel {
  LiveBlock block;
  std::optional<EventLease> last_work;
};

/// Sums over the blocks of one thread, or of all.
struct Sums {
  std::uint64_t bytes_requested = 0;
  std::uint64_t bytes_allocated = 0;
  std::uint64_t blocks = 0;
  std::uint64_t granules_spoiled = 0;  ///< that no other block needs, however blocks lie

  void add(const LiveBlock& block, std::size_t granule_bytes) {
    bytes_requested += block.bytes;
    bytes_allocated += rounded(block.bytes);
    ++blocks;
    granules_spoiled += block.bytes / granule_bytes + 2;
  }
  void remove(const LiveBlock& block, std::size_t granule_bytes) {
    bytes_requested -= block.bytes;
    bytes_allocated -= rounded(block.bytes);
    --blocks;
    granules_spoiled -= block.bytes / granule_bytes + 2;
  }
  void raise_to(const Sums& other) {
    bytes_requested = std::max(bytes_requested, other.bytes_requested);
    bytes_allocated = std::max(bytes_allocated, other.bytes_allocated);
  }
};

struct Tally {
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t refusals = 0;
  std::uint64_t bytes_across_threads = 0;
  std::uint64_t reliefs = 0;  ///< calls of on_pressure that freed blocks
  std::uint64_t guests = 0;   ///< streams and pools that came and went

  void add(const Tally& other) {
    operations += other.operations;
    allocations += other.allocations;
    frees += other.frees;
    refusals += other.refusals;
    bytes_across_threads += other.bytes_across_threads;
    reliefs += other.reliefs;
    guests += other.guests;
  }
};

}  // namespace berth::endurance
