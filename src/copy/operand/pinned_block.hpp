// SPDX-License-Identifier: Apache-2.0
// A block of pinned memory, or a registration, that a copy names: its allocator is told which
// stream uses it.
#pragma once

#include "berth/stream.hpp"

namespace berth {

class PinnedAllocator;
class PinnedHeaps;

struct PinnedBlock {
  void* data = nullptr;
  PinnedHeaps* owner = nullptr;  ///< null: of the copier's own Runtime, or none

  bool operator==(const PinnedBlock&) const = default;

  /// Before anything is submitted: a block of `own` that another thread frees right after that must
  /// wait for the stream.
  /// Errors  InvalidArgument: the per-thread default stream.
  void record_before(PinnedAllocator& own, StreamRef stream) const;
  /// Before the copy is captured: from now on the graph holds the block, also one of another
  /// Runtime.
  /// Errors  As PinnedAllocator::record_use().
  void keep_for_graph(PinnedAllocator& own, StreamRef stream) const;
  /// When all has been submitted: an event marks the use of another Runtime's block, for that
  /// Runtime must keep nothing of the stream, of whose end it does not hear.
  /// Errors  DriverError.
  void record_after(StreamRef stream) const;
};

}  // namespace berth
