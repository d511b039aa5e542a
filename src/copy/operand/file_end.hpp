// SPDX-License-Identifier: Apache-2.0
// A range of a file as one end of a staged copy, and device memory as the other.
//
// What is read past the page cache begins and ends at blocks of 4 KiB, in the file and in memory
// alike. So the row of such a copy is made of whole blocks, from the one that the range begins in
// to the one that it ends in: then slots and pieces of the copy begin at blocks too. What the row
// has beyond the range goes no further than the staging memory.
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

  /// In the file, of its first byte.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::size_t bytes() const;
  /// Before the range.
  [[nodiscard]] std::size_t bytes_before() const { return before_; }

  /// What a stretch of the row has of the range, which is a byte or more: offsets in the row.
  struct Stretch {
    std::size_t begin;
    std::size_t end;
    [[nodiscard]] std::size_t bytes() const { return end - begin; }
  };
  [[nodiscard]] Stretch in_range(std::size_t offset, std::size_t bytes) const;
  /// What a stretch has of whole granules of the file; where it has none, nothing at its end.
  [[nodiscard]] Stretch whole_granules(const Stretch& stretch, std::size_t granule) const;

 private:
  std::uint64_t offset_;
  std::size_t before_;
  std::size_t range_bytes_;
};

/// Errors  FileError.
class FileEnd final : public HostEnd {
 public:
  explicit FileEnd(const FileRange& range);
  void read(std::byte* staging, std::size_t offset, std::size_t bytes) override;
  void write(const std::byte* staging, std::size_t offset, std::size_t bytes) override;

 private:
  [[nodiscard]] bool is_read_past_cache(const std::byte* staging, std::size_t offset,
                                        std::size_t bytes) const;

  const File owner_;
  const OpenFile& file_;
  const FileRow row_;
  std::optional<PageCacheView> cache_;  ///< where what is in there matters
};

/// Device memory that has the range.
class DeviceOfRow final : public DeviceEnd {
 public:
  DeviceOfRow(std::byte* data, const FileRow& row) : memory_(data), row_(row) {}
  void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                    StreamRef stream) override;
  void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                   StreamRef stream) override;

 private:
  LinearDevice memory_;
  const FileRow row_;
};

}  // namespace berth
