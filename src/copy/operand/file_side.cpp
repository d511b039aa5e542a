// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/file_side.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "copy/operand/open_file.hpp"

namespace berth {

FileRow::FileRow(const FileRange& range)
    : offset_(align_down(range.offset, OpenFile::kBlockBytes)),
      before_(range.offset - offset_),
      range_bytes_(range.bytes) {}

std::size_t FileRow::bytes() const {
  return align_up(before_ + range_bytes_, OpenFile::kBlockBytes);
}

FileRow::Stretch FileRow::in_range(std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = std::max(offset, before_);
  const std::size_t end = std::min(offset + bytes, before_ + range_bytes_);
  BERTH_CHECK(begin < end);  // otherwise memory outside the range would be accessed
  return {begin, end};
}

FileRow::Stretch FileRow::whole_granules(const Stretch& stretch, std::size_t granule) const {
  const std::uint64_t begin = align_up(offset_ + stretch.begin, std::uint64_t{granule});
  const std::uint64_t end = align_down(offset_ + stretch.end, std::uint64_t{granule});
  if (begin >= end) return {stretch.end, stretch.end};  // end may lie before the row
  // Bytes beside the range would be overwritten.
  BERTH_CHECK(begin >= offset_ + stretch.begin && end <= offset_ + stretch.end);
  return {static_cast<std::size_t>(begin - offset_), static_cast<std::size_t>(end - offset_)};
}

FileSide::FileSide(const FileRange& range)
    : owner_(range.file), file_(owner_.open_file()), row_(range) {
  const bool matters = file_.caching() == FileCaching::automatic && file_.has_direct();
  if (matters) cache_.emplace(file_, row_.offset(), row_.bytes());
}

bool FileSide::is_read_past_cache(const std::byte* staging, std::size_t offset,
                                  std::size_t bytes) const {
  if (!file_.has_direct() || !file_.can_be_direct(staging)) return false;
  return !cache_ || !cache_->is_mostly_cached(offset, bytes);
}

void FileSide::read(std::byte* staging, std::size_t offset, std::size_t bytes) {
  const FileRow::Stretch wanted = row_.in_range(offset, bytes);
  if (is_read_past_cache(staging, offset, bytes) &&
      file_.try_read_direct(staging, bytes, wanted.end - offset, row_.offset() + offset)) {
    return;
  }
  file_.read(staging + (wanted.begin - offset), wanted.bytes(), row_.offset() + wanted.begin);
}

void FileSide::write(const std::byte* staging, std::size_t offset, std::size_t bytes) {
  const FileRow::Stretch wanted = row_.in_range(offset, bytes);
  const auto write_cached = [&](std::size_t begin, std::size_t end) {
    if (begin < end) file_.write(staging + (begin - offset), end - begin, row_.offset() + begin);
  };
  if (!file_.has_direct() || !file_.can_be_direct(staging))
    return write_cached(wanted.begin, wanted.end);
  const FileRow::Stretch whole = row_.whole_granules(wanted, file_.write_granule_bytes());
  write_cached(wanted.begin, whole.begin);
  if (whole.bytes() > 0) {
    file_.write_direct(staging + (whole.begin - offset), whole.bytes(),
                       row_.offset() + whole.begin);
  }
  write_cached(whole.end, wanted.end);
}

void FileRowDevice::submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                                 StreamRef stream) {
  const FileRow::Stretch wanted = row_.in_range(offset, bytes);
  memory_.submit_write(staging + (wanted.begin - offset), wanted.begin - row_.bytes_before(),
                       wanted.bytes(), stream);
}

void FileRowDevice::submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                                StreamRef stream) {
  const FileRow::Stretch wanted = row_.in_range(offset, bytes);
  memory_.submit_read(staging + (wanted.begin - offset), wanted.begin - row_.bytes_before(),
                      wanted.bytes(), stream);
}

}  // namespace berth
