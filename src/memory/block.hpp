// SPDX-License-Identifier: Apache-2.0
// A block: one piece of a segment, and the unit of everything in this layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth {

/// Names the stream whose order a block follows (StreamTable). Never used twice, so that a
/// destroyed stream is not confused with a later one of the same handle.
using OwnerId = std::uint64_t;

/// Owner of free memory on which no work is pending anywhere: any stream may have it.
inline constexpr OwnerId kUnowned = 0;

/// Guarded by the lock of the allocator that it belongs to.
struct Block {
  enum class State : std::uint8_t {
    allocated,  ///< a caller has it
    pending,    ///< freed, but other streams' work may still use it (DeferredFrees)
    free,       ///< in the free index of its owner
    unmapped,   ///< address space without memory behind it
    held,       ///< out of circulation while the driver maps, unmaps or frees it
  };

  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::size_t bytes_requested = 0;  ///< as the caller asked; 0 unless allocated
  OwnerId owner = kUnowned;
  std::uint64_t freed_at = 0;  ///< BlockHeap::serial() at the latest free of any part of it
  Block* prev = nullptr;       ///< neighbours in the segment, in address order
  Block* next = nullptr;
  std::vector<OwnerId> uses;   ///< other streams that were recorded on it; empty unless allocated
  std::size_t marks_left = 0;  ///< uses that have not passed yet; 0 unless pending
  State state = State::held;

  [[nodiscard]] std::uintptr_t end() const { return address + bytes; }
  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(address); }
  [[nodiscard]] bool is_whole_segment() const { return prev == nullptr && next == nullptr; }
};

}  // namespace berth
