// SPDX-License-Identifier: Apache-2.0
// A copy of rows that are a pitch apart; each side has its own pitch. In staging memory they are
// packed contiguously.
#pragma once

#include <algorithm>

#include "copy/operand/copy_shape.hpp"

namespace berth {

/// The rows of one side.
struct Rows {
  std::byte* data;
  std::size_t pitch;
  std::size_t row_bytes;

  /// Calls visit(data, position, bytes) for each row, or part of a row, in [offset, offset + bytes)
  /// of the packed rows: its address, its distance from `offset`, and its size.
  template <class Visitor>
  void for_each_stretch(std::size_t offset, std::size_t bytes, const Visitor& visit) const {
    std::size_t column = offset % row_bytes;
    std::byte* row = data + offset / row_bytes * pitch;
    for (std::size_t position = 0; position < bytes; column = 0, row += pitch) {
      const std::size_t stretch = std::min(row_bytes - column, bytes - position);
      visit(row + column, position, stretch);
      position += stretch;
    }
  }
};

class RowsDevice final : public DeviceSide {
 public:
  explicit RowsDevice(const Rows& rows) : rows_(rows) {}
  void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                    StreamRef stream) override;
  void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                   StreamRef stream) override;
  [[nodiscard]] std::size_t entries_max(std::size_t offset, std::size_t bytes,
                                        StreamRef stream) const override;

 private:
  const Rows rows_;
};

class RowsCopy final : public CopyShape {
 public:
  /// `row_bytes` is the same on both sides.
  RowsCopy(const MemoryKind& to_kind, const Rows& to, const MemoryKind& from_kind, const Rows& from,
           std::size_t rows)
      : CopyShape(to_kind, from_kind), to_(to), from_(from), rows_(rows) {}

  [[nodiscard]] std::size_t bytes() const override { return rows_ * to_.row_bytes; }
  void check_pageable() const override;
  void copy_on_host() const override;
  void submit(DirectSubmission& submission) const override;
  [[nodiscard]] std::unique_ptr<HostSide> host_side(CopyDirection direction) const override;
  [[nodiscard]] std::unique_ptr<DeviceSide> device_side(CopyDirection direction) const override;

 private:
  const Rows to_;
  const Rows from_;
  const std::size_t rows_;
};

}  // namespace berth
