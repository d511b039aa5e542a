// SPDX-License-Identifier: Apache-2.0
// A block of pinned memory, or a registration, that a copy uses: its use by the stream is recorded
// with its allocator.
#pragma once

#include "berth/stream.hpp"

namespace berth {

class PinnedAllocator;
class PinnedHeaps;

struct PinnedBlock {
  void* data = nullptr;
  PinnedHeaps* owner = nullptr;  ///< another Runtime's; null for the copier's own, or no block

  bool operator==(const PinnedBlock&) const = default;

  /// Called before anything is submitted: if another thread frees a block of `own` right after
  /// that, its reuse must wait for the stream.
  /// Errors  InvalidArgument: the per-thread default stream.
  void record_before(PinnedAllocator& own, StreamRef stream) const;
  /// Called before the copy is captured: from now on the graph holds the block, also one of another
  /// Runtime.
  /// Errors  As PinnedAllocator::record_use().
  void keep_for_graph(PinnedAllocator& own, StreamRef stream) const;
  /// Called after everything has been submitted: an event marks the use of another Runtime's block.
  /// That Runtime must not keep the stream, because it is not notified of the stream's end.
  /// Errors  DriverError.
  void record_after(StreamRef stream) const;
};

}  // namespace berth
