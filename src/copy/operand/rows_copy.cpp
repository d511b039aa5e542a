// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/rows_copy.hpp"

#include <cstring>

#include "copy/operand/packed_host.hpp"
#include "copy/operand/readable_memory.hpp"

namespace berth {
namespace {

/// Splits the packed rows in [offset, offset + bytes) as a device copies them: the rest of a row,
/// whole rows together, and the beginning of another row. Calls visit(data, position, stretch,
/// rows), as Rows::for_each_stretch() does.
template <class Visitor>
void for_each_block(const Rows& rows, std::size_t offset, std::size_t bytes, const Visitor& visit) {
  const std::size_t begun = offset % rows.row_bytes;
  const std::size_t head = begun == 0 ? 0 : std::min(rows.row_bytes - begun, bytes);
  const std::size_t whole = (bytes - head) / rows.row_bytes;
  const std::size_t tail = bytes - head - whole * rows.row_bytes;
  std::byte* row = rows.data + offset / rows.row_bytes * rows.pitch;
  if (head != 0) {
    visit(row + begun, 0, head, 1);
    row += rows.pitch;
  }
  if (whole != 0) visit(row, head, rows.row_bytes, whole);
  if (tail != 0) visit(row + whole * rows.pitch, bytes - tail, tail, 1);
}

}  // namespace

void RowsDevice::submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                              StreamRef stream) {
  for_each_block(
      rows_, offset, bytes,
      [&](std::byte* data, std::size_t position, std::size_t stretch, std::size_t rows) {
        submit_rows({data, rows_.pitch}, {staging + position, stretch}, stretch, rows, {}, stream);
      });
}

void RowsDevice::submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                             StreamRef stream) {
  for_each_block(
      rows_, offset, bytes,
      [&](const std::byte* data, std::size_t position, std::size_t stretch, std::size_t rows) {
        submit_rows({staging + position, stretch}, {data, rows_.pitch}, stretch, rows, {}, stream);
      });
}

std::size_t RowsDevice::entries_max(std::size_t offset, std::size_t bytes, StreamRef) const {
  std::size_t entries = 0;
  for_each_block(rows_, offset, bytes,
                 [&](const std::byte*, std::size_t, std::size_t, std::size_t) { ++entries; });
  return entries;
}

void RowsCopy::check_pageable() const {
  const auto extent = [&](const Rows& side) { return (rows_ - 1) * side.pitch + side.row_bytes; };
  if (to().is_pageable()) require_writable(to_.data, extent(to_));
  if (from().is_pageable()) require_readable(from_.data, extent(from_));
}

void RowsCopy::copy_on_host() const {
  for (std::size_t row = 0; row < rows_; ++row)
    std::memcpy(to_.data + row * to_.pitch, from_.data + row * from_.pitch, to_.row_bytes);
}

void RowsCopy::submit(DirectSubmission& submission) const {
  submission.add_rows({to_.data, to_.pitch}, {from_.data, from_.pitch}, to_.row_bytes, rows_);
}

std::unique_ptr<HostSide> RowsCopy::host_side(CopyDirection direction) const {
  return std::make_unique<PackedHost<Rows>>(direction == CopyDirection::to_device ? from_ : to_);
}

std::unique_ptr<DeviceSide> RowsCopy::device_side(CopyDirection direction) const {
  return std::make_unique<RowsDevice>(direction == CopyDirection::to_device ? to_ : from_);
}

}  // namespace berth
