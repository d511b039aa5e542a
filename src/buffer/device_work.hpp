// SPDX-License-Identifier: Apache-2.0
// What copies one device of a backend part by part: its threads, so that no device waits for
// another one, and its staging memory.
#pragma once

#include <cstddef>
#include <memory>

#include "base/mutex.hpp"
#include "buffer/file_staging.hpp"
#include "buffer/task_thread.hpp"

namespace berth {

/// Threads  Safe from any thread.
class DeviceWork {
 public:
  explicit DeviceWork(const RegisteredBackend& owner) : owner_(owner) {}

  /// Copies between files and the device. It may wait for a disk.
  [[nodiscard]] TaskThread& files() { return files_; }
  /// Copies between host memory and the device. They do not wait for disks.
  [[nodiscard]] TaskThread& memory() { return memory_; }
  /// On the thread of files.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::shared_ptr<FileStaging> staging(const std::shared_ptr<BufferSet>& set)
      BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t staging_bytes() const BERTH_EXCLUDES(mutex_);
  /// Frees the staging memory, unless a copy uses it. Returns its bytes.
  std::size_t trim() noexcept BERTH_EXCLUDES(mutex_);
  /// No copy is pending and none begins from now on: ends the threads, and frees all memory.
  void finish() noexcept BERTH_EXCLUDES(mutex_);

 private:
  const RegisteredBackend& owner_;
  mutable Mutex mutex_;
  /// Copied only under the lock, or from another copy.
  std::shared_ptr<FileStaging> staging_ BERTH_GUARDED_BY(mutex_);
  TaskThread files_;
  TaskThread memory_;
};

}  // namespace berth
