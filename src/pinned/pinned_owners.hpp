// SPDX-License-Identifier: Apache-2.0
// The pinned memory of every Runtime of the process. Memory that one Runtime has pinned may be
// passed to the copier of another Runtime, which must notify the owner that a stream uses it.
#pragma once

#include <cstddef>
#include <optional>

#include "berth/stream.hpp"

#include "heap/block.hpp"

namespace berth {

class PinnedAllocator;
class PinnedHeaps;

/// Pinned memory at some address.
struct PinnedOwner {
  PinnedHeaps* heaps;
  void* block;  ///< the start of the live block or registration there; null: that memory is free
  std::size_t bytes;  ///< of the block, as requested; 0 for a registration
};

/// Lookup in one allocator, without a driver call. Contract: PinnedHeaps::look_up().
/// Threads  Safe from any thread.
class PinnedLookup {
 public:
  static FoundBlock look_up(const PinnedAllocator& pinned, const void* data);
};

/// Threads  Safe from any thread.
void add_pinned_owner(PinnedHeaps& heaps);
/// Returns when no other thread uses `heaps`.
void remove_pinned_owner(PinnedHeaps& heaps) noexcept;
/// The owner of the memory at `data`; nullopt: not pinned by berth. The owner stays valid as long
/// as the block is live.
std::optional<PinnedOwner> find_pinned_owner(const void* data);
/// Whether more than one Runtime pins memory.
bool has_several_pinned_owners() noexcept;

/// Records that the current work of `stream`, which belongs to another Runtime, uses the block at
/// `data`. The owner keeps neither the handle, which may be destroyed at any time, nor a reference
/// to the other Runtime.
/// Errors  As PinnedAllocator::record_use().
void record_pinned_use(PinnedHeaps& owner, void* data, StreamRef stream);

}  // namespace berth
