// SPDX-License-Identifier: Apache-2.0
// The shape of a copy: one range, rows a pitch apart, or a batch of ranges. Each shape implements
// every path; the dispatcher chooses one.
#pragma once

#include <cstddef>
#include <memory>

#include "copy/direct/direct_submission.hpp"
#include "copy/operand/copy_sides.hpp"
#include "copy/operand/memory_kind.hpp"
#include "copy/operand/pinned_block.hpp"

namespace berth {

/// Threads  One. Other threads may use the sides.
class CopyShape {
 public:
  /// The kind of all memory on each side.
  CopyShape(const MemoryKind& to, const MemoryKind& from) : to_(to), from_(from) {}
  virtual ~CopyShape() = default;
  CopyShape(const CopyShape&) = delete;
  CopyShape& operator=(const CopyShape&) = delete;

  [[nodiscard]] const MemoryKind& to() const { return to_; }
  [[nodiscard]] const MemoryKind& from() const { return from_; }
  [[nodiscard]] bool is_on_host() const { return to_.is_host() && from_.is_host(); }
  [[nodiscard]] bool has_pageable() const { return to_.is_pageable() || from_.is_pageable(); }
  /// Whether either side is pinned memory, pinned by berth or by other code.
  [[nodiscard]] bool has_pinned() const { return to_.is_pinned() || from_.is_pinned(); }
  /// 1 or more.
  [[nodiscard]] virtual std::size_t bytes() const = 0;

  /// Checks that pageable memory exists. Ranges in one page are checked once.
  /// Errors  As require_writable() for the target, require_readable() for the source.
  virtual void check_pageable() const = 0;

  /// Copies on the calling thread. Both sides are host memory.
  virtual void copy_on_host() const = 0;
  /// Copies by the driver alone.
  /// Errors  DriverError: a part may be pending.
  virtual void submit(DirectSubmission& submission) const = 0;

  /// The host side and the device side of a copy through staging memory. They may outlive this
  /// object.
  [[nodiscard]] virtual std::unique_ptr<HostSide> host_side(CopyDirection direction) const = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceSide> device_side(CopyDirection direction) const = 0;

  /// Record the stream's use of berth's pinned blocks, as described in PinnedBlock.
  virtual void record_blocks_before(PinnedAllocator& own, StreamRef stream) const {
    for (const PinnedBlock& block : {to_.pinned, from_.pinned}) block.record_before(own, stream);
  }
  virtual void keep_blocks_for_graph(PinnedAllocator& own, StreamRef stream) const {
    for (const PinnedBlock& block : {to_.pinned, from_.pinned}) block.keep_for_graph(own, stream);
  }
  virtual void record_blocks_after(StreamRef stream) const {
    for (const PinnedBlock& block : {to_.pinned, from_.pinned}) block.record_after(stream);
  }

 private:
  const MemoryKind to_;
  const MemoryKind from_;
};

}  // namespace berth
