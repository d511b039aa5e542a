// SPDX-License-Identifier: Apache-2.0
// Writes a range of a buffer of a backend to a file.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "buffer/file_task.hpp"

namespace berth {

class FileSaving final : public FileTask {
 public:
  /// Reads the buffer from `offset` on. The buffer may lose its owner meanwhile.
  FileSaving(std::shared_ptr<BufferTransfer> transfer, DeviceBackend& backend,
             std::shared_ptr<const DeviceBackend::Buffer> source, std::size_t offset,
             FileRange target)
      : FileTask(std::move(transfer), std::move(target)),
        backend_(backend),
        source_(std::move(source)),
        offset_(offset) {}

 private:
  void copy_all() override;
  void release() noexcept override { source_ = nullptr; }
  void read(std::size_t begin);

  DeviceBackend& backend_;
  std::shared_ptr<const DeviceBackend::Buffer> source_;
  const std::size_t offset_;
};

}  // namespace berth
