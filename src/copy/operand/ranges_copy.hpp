// SPDX-License-Identifier: Apache-2.0
// A copy of ranges that are scattered on either side. In staging memory they are packed
// contiguously.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "copy/operand/copy_shape.hpp"

namespace berth {

/// The ranges of one side, in the order in which they are packed.
class Scattered {
 public:
  /// `adjoins`: the range begins at the end of the previous one, and the two may be copied as one.
  void add(std::byte* data, std::size_t bytes, bool adjoins);

  /// Calls visit(data, position, bytes) for each range, or part of a range, in [offset, offset +
  /// bytes) of the packed ranges: its address, its distance from `offset`, and its size.
  template <class Visitor>
  void for_each_stretch(std::size_t offset, std::size_t bytes, const Visitor& visit) const {
    std::size_t position = 0;
    for (std::size_t index = index_of(offset); position < bytes; ++index) {
      const Range& range = ranges_[index];
      const std::size_t begun = offset + position - range.offset;
      const std::size_t stretch = std::min(range.bytes - begun, bytes - position);
      visit(range.data + begun, position, stretch);
      position += stretch;
    }
  }

 private:
  struct Range {
    std::byte* data;
    std::size_t bytes;
    std::size_t offset;  ///< among the packed ranges
  };

  /// The index of the range that contains the byte at `offset`.
  [[nodiscard]] std::size_t index_of(std::size_t offset) const;

  std::vector<Range> ranges_;
};

class ScatteredDevice final : public DeviceSide {
 public:
  ScatteredDevice(Scattered ranges, Batching batching)
      : ranges_(std::move(ranges)), batching_(batching) {}
  void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                    StreamRef stream) override;
  void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                   StreamRef stream) override;
  [[nodiscard]] std::size_t entries_max(std::size_t offset, std::size_t bytes,
                                        StreamRef stream) const override;

 private:
  const Scattered ranges_;
  const Batching batching_;
};

class RangesCopy final : public CopyShape {
 public:
  /// Whether a range begins on each side at the end of the previous one, in the same allocation.
  /// The driver does not copy across allocations.
  struct Adjoins {
    bool target;
    bool source;
  };

  /// `batching` applies to copies through staging memory.
  RangesCopy(const MemoryKind& to, const MemoryKind& from, Batching batching)
      : CopyShape(to, from), batching_(batching) {}

  void add(const CopyRange& range, Adjoins adjoins);
  /// Adds a pinned block of berth's that contains a range. A block may be added repeatedly.
  void add_block(const PinnedBlock& block);

  [[nodiscard]] std::size_t bytes() const override { return bytes_; }
  void check_pageable() const override;
  void copy_on_host() const override;
  void submit(DirectSubmission& submission) const override;
  [[nodiscard]] std::unique_ptr<HostSide> host_side(CopyDirection direction) const override;
  [[nodiscard]] std::unique_ptr<DeviceSide> device_side(CopyDirection direction) const override;
  void record_blocks_before(PinnedAllocator& own, StreamRef stream) const override;
  void keep_blocks_for_graph(PinnedAllocator& own, StreamRef stream) const override;
  void record_blocks_after(StreamRef stream) const override;

 private:
  std::vector<CopyRange> ranges_;
  Scattered targets_;
  Scattered sources_;
  std::vector<PinnedBlock> blocks_;
  const Batching batching_;
  std::size_t bytes_ = 0;
};

}  // namespace berth
