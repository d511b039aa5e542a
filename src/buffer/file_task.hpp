// SPDX-License-Identifier: Apache-2.0
// A copy between a file and a buffer of a backend, through the staging memory of its device: while
// the backend copies one part, the file is read or written for another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "berth/device_backend.hpp"
#include "berth/file.hpp"

#include "base/check.hpp"
#include "buffer/buffer_set.hpp"
#include "buffer/part_task.hpp"

namespace berth {

class FileTask : public PartTask {
 protected:
  static constexpr std::size_t kPartBytes = FileStaging::kPartBytes;

  /// `buffer` may lose its owner meanwhile.
  /// Errors  std::bad_alloc.
  FileTask(std::shared_ptr<BufferTransfer> transfer, const BufferState& buffer, FileRange range)
      : FileTask(std::move(transfer), buffer.set(), buffer.work(), std::move(range)) {}

  void release() noexcept override { staging_ = nullptr; }
  [[nodiscard]] std::shared_ptr<Part> try_take_part() final { return staging_->try_take(); }

  [[nodiscard]] const FileRange& range() const { return range_; }
  /// Of the part of the range that begins at `begin`.
  [[nodiscard]] std::size_t bytes_at(std::size_t begin) const {
    BERTH_CHECK(begin < range_.bytes);
    return std::min(kPartBytes, range_.bytes - begin);
  }

 private:
  FileTask(std::shared_ptr<BufferTransfer> transfer, std::shared_ptr<BufferSet> set,
           DeviceWork& work, FileRange range)
      : PartTask(std::move(transfer), work.files()),
        set_(std::move(set)),
        work_(work),
        range_(std::move(range)) {}

  void prepare() override { staging_ = work_.staging(set_); }

  const std::shared_ptr<BufferSet> set_;
  DeviceWork& work_;
  const FileRange range_;
  std::shared_ptr<FileStaging> staging_;
};

}  // namespace berth
