// SPDX-License-Identifier: Apache-2.0
// A block: one piece of a segment, the unit of this layer. Its record is separate from its memory,
// which the host cannot access, and is small, because programs have many blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/near_pointer.hpp"
#include "base/relaxed.hpp"

namespace berth {

/// Identifies the stream whose order a block follows (StreamTable). Never reused, so that a
/// destroyed stream is not confused with a later one of the same handle.
using OwnerId = std::uint32_t;

/// The owner of free memory without pending work on any stream: any stream may use it.
inline constexpr OwnerId kUnowned = 0;

/// The memory that `owner` freed up to `serial` (BlockHeap::serial()).
struct Freed {
  OwnerId owner = kUnowned;
  std::uint64_t serial = 0;
  bool is_last = false;  ///< the stream had ended, so it has no other work
};

/// Guarded by the lock of the allocator that it belongs to, except for accesses of ThreadCache to
/// allocated and cached blocks.
struct Block {
  enum class State : std::uint8_t {
    held,       ///< withdrawn while the driver maps, unmaps or frees it
    allocated,  ///< a caller has it
    cached,     ///< freed, in a FrontCache for the next request of its size
    pending,    ///< freed, but other streams' work may still use it (BlockUses)
    part,       ///< belongs to a stitched block, whose address is elsewhere
    free,       ///< in the free index of its owner
    unmapped,   ///< address space without memory behind it
  };

  /// Subtrees of the free index.
  struct Tree {
    NearPointer<Block> smaller;
    NearPointer<Block> larger;
  };
  /// Neighbors among the free blocks that have just changed, by the time of the change.
  struct Recent {
    NearPointer<Block> older;
    NearPointer<Block> newer;
  };
  struct Uses {
    std::uint32_t list;        ///< other streams that were recorded on it (BlockUses); 0: none
    std::uint32_t marks_left;  ///< those that have not passed yet; 0 unless pending
  };
  struct Part {
    NearPointer<Block> whole;  ///< the stitched block
    NearPointer<Block> next;   ///< the next part of it
  };

  Relaxed<std::uintptr_t> address = 0;  ///< PointerMap reads it without the lock
  std::size_t bytes = 0;
  /// BlockHeap::serial() at the latest free of any part of it; not of a stitched block.
  std::uint64_t freed_at = 0;
  NearPointer<Block> prev{};  ///< neighbors in the segment, in address order; of a stitched block
  NearPointer<Block> next{};  ///< none, and its first part
  union {
    Tree tree{};               ///< free, unless is_recent
    Recent recent;             ///< free and is_recent
    Uses uses;                 ///< allocated, pending
    NearPointer<Block> below;  ///< the next one of its stack: cached
    Part part;                 ///< part
  };
  OwnerId owner = kUnowned;

 private:
  Relaxed<std::uint16_t> slack_bytes_ = 0;  ///< atomic, so that lookups need no thread's cache
  Relaxed<State> state_ =
      State::held;  ///< atomic: another thread's ThreadCache may have the neighbor

 public:
  bool is_stitched : 1 = false;  ///< consists of parts whose granules are mapped a second time
  bool is_recent : 1 = false;    ///< in the list of changed blocks of its FreeIndex

  [[nodiscard]] std::uintptr_t end() const { return address + bytes; }
  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(std::uintptr_t{address}); }
  [[nodiscard]] bool is_whole_segment() const { return prev == nullptr && next == nullptr; }

  /// As requested by the caller; 0 unless allocated.
  [[nodiscard]] std::size_t bytes_requested() const {
    return state() == State::allocated ? bytes - slack_bytes_ : 0;
  }
  /// bytes - bytes_requested(). Only of an allocated block.
  [[nodiscard]] std::size_t slack_bytes() const { return slack_bytes_; }
  void set_slack_bytes(std::size_t slack) {
    slack_bytes_ = static_cast<std::uint16_t>(slack);
    BERTH_DCHECK(slack_bytes_ == slack);
  }
  void set_bytes_requested(std::size_t requested) { set_slack_bytes(bytes - requested); }

  [[nodiscard]] State state() const { return state_; }
  void set_state(State state) { state_ = state; }
};
static_assert(sizeof(Block) == 48);

/// A live block, for other layers.
struct FoundBlock {
  void* block = nullptr;  ///< its start; null if there is none
  std::size_t bytes = 0;  ///< as requested
};

}  // namespace berth
