// SPDX-License-Identifier: Apache-2.0
// A range of a file as one side of a staged copy, and device memory as the other.
//
// Direct reads (O_DIRECT) begin and end at blocks of 4 KiB, in the file and in memory. So the row
// of such a copy consists of whole blocks, from the block in which the range begins to the block in
// which it ends, and slots and pieces of the copy begin at blocks, too. Bytes of the row outside
// the range stay in staging memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "berth/file.hpp"

#include "copy/operand/linear_copy.hpp"
#include "copy/operand/page_cache_view.hpp"

namespace berth {

class FileRow {
 public:
  explicit FileRow(const FileRange& range);

  /// The file offset of the first byte of the row.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::size_t bytes() const;
  /// Bytes of the row before the range.
  [[nodiscard]] std::size_t bytes_before() const { return before_; }

  /// The part of a stretch of the row that lies in the range, at least one byte, as offsets in the
  /// row.
  struct Stretch {
    std::size_t begin;
    std::size_t end;
    [[nodiscard]] std::size_t bytes() const { return end - begin; }
  };
  [[nodiscard]] Stretch in_range(std::size_t offset, std::size_t bytes) const;
  /// The whole granules of the file in a stretch; an empty stretch at its end if there are none.
  [[nodiscard]] Stretch whole_granules(const Stretch& stretch, std::size_t granule) const;

 private:
  std::uint64_t offset_;
  std::size_t before_;
  std::size_t range_bytes_;
};

/// Errors  FileError.
class FileSide final : public HostSide {
 public:
  explicit FileSide(const FileRange& range);
  void read(std::byte* staging, std::size_t offset, std::size_t bytes) override;
  void write(const std::byte* staging, std::size_t offset, std::size_t bytes) override;

 private:
  [[nodiscard]] bool is_read_past_cache(const std::byte* staging, std::size_t offset,
                                        std::size_t bytes) const;

  const File owner_;
  const OpenFile& file_;
  const FileRow row_;
  std::optional<PageCacheView> cache_;  ///< if the mode depends on cached pages
};

/// The device memory that corresponds to the range of the file.
class FileRowDevice final : public DeviceSide {
 public:
  FileRowDevice(std::byte* data, const FileRow& row) : memory_(data), row_(row) {}
  void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                    StreamRef stream) override;
  void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                   StreamRef stream) override;

 private:
  LinearDevice memory_;
  const FileRow row_;
};

}  // namespace berth
