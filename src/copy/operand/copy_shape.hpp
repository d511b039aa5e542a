// SPDX-License-Identifier: Apache-2.0
// What is copied, in the shape in which it lies: in one piece, in rows a pitch apart, here and
// there. Each shape says what its bytes take on each of the ways that a copy can go; the copier
// chooses the way.
#pragma once

#include <cstddef>
#include <memory>

#include "copy/direct/direct_submission.hpp"
#include "copy/operand/copy_ends.hpp"
#include "copy/operand/memory_kind.hpp"
#include "copy/operand/pinned_block.hpp"

namespace berth {

/// Threads  One thread; the ends are of their own.
class CopyShape {
 public:
  /// Of the memory on each side, all of it.
  CopyShape(const MemoryKind& to, const MemoryKind& from) : to_(to), from_(from) {}
  virtual ~CopyShape() = default;
  CopyShape(const CopyShape&) = delete;
  CopyShape& operator=(const CopyShape&) = delete;

  [[nodiscard]] const MemoryKind& to() const { return to_; }
  [[nodiscard]] const MemoryKind& from() const { return from_; }
  [[nodiscard]] bool is_on_host() const { return to_.is_host() && from_.is_host(); }
  [[nodiscard]] bool has_pageable() const { return to_.is_pageable() || from_.is_pageable(); }
  /// Whether a side is pinned memory, of berth's or others'.
  [[nodiscard]] bool has_pinned() const { return to_.is_pinned() || from_.is_pinned(); }
  /// 1 or more.
  [[nodiscard]] virtual std::size_t bytes() const = 0;

  /// Of pageable memory. What lies close together is looked at once.
  /// Errors  As require_writable() of the target, require_readable() of the source.
  virtual void check_pageable() const = 0;

  /// On the calling thread. Host memory on both sides.
  virtual void copy_on_host() const = 0;
  /// By the device alone, or by whatever else the driver can do.
  /// Errors  DriverError: a part may be under way.
  virtual void submit(DirectSubmission& submission) const = 0;

  /// The side that is the host's, and the other, for a copy through staging memory. They do without
  /// this object.
  [[nodiscard]] virtual std::unique_ptr<HostEnd> host_end(CopyDirection direction) const = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceEnd> device_end(CopyDirection direction) const = 0;

  /// Records the stream's use of pinned blocks of berth's: PinnedBlock.
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
