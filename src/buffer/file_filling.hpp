// SPDX-License-Identifier: Apache-2.0
// Fills a buffer of a backend from a file, part by part: while the backend writes one part, the
// next is read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/file.hpp"

#include "buffer/buffer_transfer.hpp"
#include "buffer/task_thread.hpp"

namespace berth {

class FileFilling final : public Task, public std::enable_shared_from_this<FileFilling> {
 public:
  static constexpr std::size_t kPartBytes = std::size_t{4} << 20;

  FileFilling(std::shared_ptr<BufferTransfer> transfer,
              std::unique_ptr<DeviceBackend::Filling> filling, FileRange range);

  void run() noexcept override;

 private:
  /// Memory that a write of the backend reads while it is busy.
  struct Part {
    std::vector<std::byte> memory;
    std::atomic<bool> is_busy = false;
  };

  void write_all();
  void write(Part& part, std::size_t begin, std::size_t bytes);

  const std::shared_ptr<BufferTransfer> transfer_;
  std::unique_ptr<DeviceBackend::Filling> filling_;
  const FileRange range_;
  std::array<Part, 2> parts_;
};

}  // namespace berth
