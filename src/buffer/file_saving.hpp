// SPDX-License-Identifier: Apache-2.0
// Writes a range of a buffer of a backend to a file.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "buffer/file_task.hpp"

namespace berth {

class FileSaving final : public FileTask {
 public:
  /// Reads the buffer from `offset` on. The buffer may lose its owner meanwhile.
  FileSaving(std::shared_ptr<BufferTransfer> transfer, const BufferState& source,
             std::size_t offset, FileRange target)
      : FileTask(std::move(transfer), source, std::move(target)),
        backend_(source.backend()),
        source_(source.share()),
        source_bytes_(source.bytes()),
        offset_(offset) {}

 private:
  void copy_all() override;
  void release() noexcept override;
  /// Whether parts are left to read, and the backend reads parts.
  [[nodiscard]] bool has_next() const;
  /// Whether a slot has a part that is read, or has been read and not written.
  [[nodiscard]] bool is_reading();
  /// A slot whose part has been read, or null.
  [[nodiscard]] Slot* find_read();
  void read_next(Slot& slot);
  /// Copies the rest of the range.
  void copy_from_whole();
  void write(std::size_t begin, std::span<const std::byte> content);

  DeviceBackend& backend_;
  std::shared_ptr<const DeviceBackend::Buffer> source_;
  const std::size_t source_bytes_;
  const std::size_t offset_;
  std::size_t next_ = 0;  ///< where the next part to read begins
};

}  // namespace berth
