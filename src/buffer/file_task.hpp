// SPDX-License-Identifier: Apache-2.0
// A copy between a file and a buffer of a backend, part by part: while the backend copies one part,
// the file is read or written for another.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/file.hpp"

#include "buffer/buffer_transfer.hpp"
#include "buffer/task_thread.hpp"

namespace berth {

class FileTask : public Task, public std::enable_shared_from_this<FileTask> {
 public:
  void run() noexcept final;

 protected:
  static constexpr std::size_t kPartBytes = std::size_t{4} << 20;

  /// Memory that an operation of the backend uses while it is busy.
  struct Part {
    std::vector<std::byte> memory;
    std::atomic<bool> is_busy = false;
  };

  FileTask(std::shared_ptr<BufferTransfer> transfer, FileRange range)
      : transfer_(std::move(transfer)), range_(std::move(range)) {}

  /// Copies all parts, or returns once the transfer has failed. Operations may still be pending
  /// then.
  virtual void copy_all() = 0;
  /// Frees what the task has of the backend.
  virtual void release() noexcept = 0;

  [[nodiscard]] BufferTransfer& transfer() const { return *transfer_; }
  [[nodiscard]] const FileRange& range() const { return range_; }
  /// The part of the range that begins at `begin`.
  [[nodiscard]] Part& part_at(std::size_t begin) {
    return parts_[begin / kPartBytes % parts_.size()];
  }
  [[nodiscard]] std::size_t bytes_at(std::size_t begin) const {
    return std::min(kPartBytes, range_.bytes - begin);
  }
  static constexpr std::size_t kPartsBytes = 2 * kPartBytes;  ///< of all parts

  /// Starts an operation of the backend that uses a part, by `call(done)`. Its success means that
  /// `bytes` have arrived.
  template <class Call>
  void use(Part& part, std::size_t bytes, const Call& call) {
    part.is_busy = true;
    // Ends with the call of `done`, or with the last copy of a `done` that a backend drops without
    // a call.
    std::shared_ptr<Part> used(&part, [self = shared_from_this()](Part* ended) {
      self->transfer_->end_part(ended->is_busy);
    });
    const DeviceBackend::Done done = transfer_->add_operation(bytes);
    try {
      call([used = std::move(used), done](std::exception_ptr failure) mutable {
        done(std::move(failure));
        used = nullptr;
      });
    } catch (...) {
      done(std::current_exception());  // before the operation counts as dropped
      throw;
    }
  }

 private:
  const std::shared_ptr<BufferTransfer> transfer_;
  const FileRange range_;
  std::array<Part, kPartsBytes / kPartBytes> parts_;
};

}  // namespace berth
