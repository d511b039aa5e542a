// SPDX-License-Identifier: Apache-2.0
// The pinned memory of every Runtime of the process. Memory that one Runtime has pinned may be
// named to the copier of another one, which has to tell the owner that a stream uses it.
#pragma once

#include <optional>

#include "berth/stream.hpp"

namespace berth {

class PinnedHeaps;

/// Pinned memory at some address.
struct PinnedOwner {
  PinnedHeaps* heaps;
  void* block;  ///< the start of the live block or registration there; null: that memory is free
};

/// Threads  Safe from any thread.
void add_pinned_owner(PinnedHeaps& heaps);
/// Returns once no other thread looks at `heaps`.
void remove_pinned_owner(PinnedHeaps& heaps) noexcept;
/// Whose memory `data` points into; nullopt: pinned by nobody but perhaps the program itself. The
/// owner stays valid as long as the block is live.
std::optional<PinnedOwner> find_pinned_owner(const void* data);

/// Marks that the work which `stream`, of another Runtime, has now uses the block at `data`. The
/// owner keeps nothing of the stream: neither its handle, which may be gone at the next moment, nor
/// what its Runtime owns.
/// Errors  As PinnedAllocator::record_use().
void record_pinned_use(PinnedHeaps& owner, void* data, StreamRef stream);

}  // namespace berth
