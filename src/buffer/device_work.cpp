// SPDX-License-Identifier: Apache-2.0
#include "buffer/device_work.hpp"

#include <utility>

#include "base/check.hpp"

namespace berth {

std::shared_ptr<FileStaging> DeviceWork::staging(const std::shared_ptr<BufferSet>& set) {
  {
    const MutexLock lock(mutex_);
    if (staging_ != nullptr) return staging_;
  }
  // Without the lock, because a backend may take long to map memory. Only one thread is here.
  auto made = std::make_shared<FileStaging>(set, owner_, files_);
  const MutexLock lock(mutex_);
  BERTH_CHECK(staging_ == nullptr);  // or trim() would not know all of it
  staging_ = std::move(made);
  return staging_;
}

std::size_t DeviceWork::staging_bytes() const {
  const MutexLock lock(mutex_);
  return staging_ == nullptr ? 0 : FileStaging::kBytes;
}

std::size_t DeviceWork::trim() noexcept {
  std::shared_ptr<FileStaging> freed;  // without the lock
  const MutexLock lock(mutex_);
  if (staging_ == nullptr || staging_.use_count() > 1) return 0;
  freed = std::move(staging_);
  return FileStaging::kBytes;
}

void DeviceWork::finish() noexcept {
  files_.finish();
  memory_.finish();
  const MutexLock lock(mutex_);
  staging_ = nullptr;
}

}  // namespace berth
