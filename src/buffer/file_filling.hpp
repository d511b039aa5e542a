// SPDX-License-Identifier: Apache-2.0
// Fills a buffer of a backend from a file.
#pragma once

#include <memory>
#include <utility>

#include "buffer/file_task.hpp"

namespace berth {

class FileFilling final : public FileTask {
 public:
  FileFilling(std::shared_ptr<BufferTransfer> transfer, const BufferState& target,
              std::unique_ptr<DeviceBackend::Filling> filling, FileRange source)
      : FileTask(std::move(transfer), target, std::move(source)), filling_(std::move(filling)) {}

 private:
  void copy_all() override;
  /// If it is destroyed before its last write, the filling fails.
  void release() noexcept override;

  std::unique_ptr<DeviceBackend::Filling> filling_;
};

}  // namespace berth
