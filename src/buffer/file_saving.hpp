// SPDX-License-Identifier: Apache-2.0
// Writes a range of a buffer of a backend to a file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "buffer/buffer_set.hpp"
#include "buffer/file_task.hpp"

namespace berth {

class FileSaving final : public FileTask {
 public:
  /// Reads the buffer from `offset` on. The buffer may lose its owner meanwhile.
  FileSaving(std::shared_ptr<BufferTransfer> transfer, const BufferState& source,
             std::size_t offset, FileRange target)
      : FileTask(std::move(transfer), std::move(target)),
        backend_(source.backend()),
        source_(source.share()),
        source_bytes_(source.bytes()),
        offset_(offset) {}

 private:
  void copy_all() override;
  void release() noexcept override { source_ = nullptr; }
  void read(std::size_t begin);
  /// Copies the range from `begin` on.
  void copy_from_whole(std::size_t begin);
  void write(std::size_t begin, std::span<const std::byte> content);

  DeviceBackend& backend_;
  std::shared_ptr<const DeviceBackend::Buffer> source_;
  const std::size_t source_bytes_;
  const std::size_t offset_;
  Part whole_;  ///< the buffer, if its backend does not read parts
};

}  // namespace berth
