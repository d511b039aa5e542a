// SPDX-License-Identifier: Apache-2.0
// A block of pinned memory, or a registration, that a copy uses. Its use by the stream is recorded
// in its allocator.
#pragma once

#include "berth/stream.hpp"

namespace berth {

class PinnedAllocator;
class PinnedHeaps;

struct PinnedBlock {
  void* data = nullptr;
  PinnedHeaps* owner = nullptr;  ///< of another Runtime; null for the copier's own, or no block

  bool operator==(const PinnedBlock&) const = default;

  /// Called before anything is submitted: if another thread frees a block of `own` right after the
  /// submission, its reuse must wait for the stream.
  /// Errors  InvalidArgument: the per-thread default stream.
  void record_before(PinnedAllocator& own, StreamRef stream) const;
  /// Called before the copy is captured. The graph then keeps the block alive, including a block of
  /// another Runtime.
  /// Errors  As PinnedAllocator::record_use().
  void keep_for_graph(PinnedAllocator& own, StreamRef stream) const;
  /// Called after everything has been submitted: marks the use of another Runtime's block by an
  /// event. That Runtime must not store the stream, because it is not notified when the stream is
  /// destroyed.
  /// Errors  DriverError.
  void record_after(StreamRef stream) const;
};

}  // namespace berth
