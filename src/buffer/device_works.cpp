// SPDX-License-Identifier: Apache-2.0
#include "buffer/device_works.hpp"

#include <vector>

namespace berth {

DeviceWork& DeviceWorks::of(Device device, const RegisteredBackend& owner) {
  const MutexLock lock(mutex_);
  const auto found = all_.find(device);
  if (found != all_.end()) return *found->second;
  return *all_.emplace(device, std::make_unique<DeviceWork>(owner)).first->second;
}

void DeviceWorks::wake() noexcept {
  const MutexLock lock(mutex_);
  for (const auto& [device, work] : all_) {
    work->files().wake();
    work->memory().wake();
  }
}

std::size_t DeviceWorks::staging_bytes(Device device) const {
  const MutexLock lock(mutex_);
  const auto found = all_.find(device);
  return found == all_.end() ? 0 : found->second->staging_bytes();
}

std::size_t DeviceWorks::trim() {
  std::vector<DeviceWork*> all;
  {
    const MutexLock lock(mutex_);
    for (const auto& [device, work] : all_) all.push_back(work.get());
  }
  // Without the lock, because a backend may take long to unmap memory.
  std::size_t bytes = 0;
  for (DeviceWork* const work : all) bytes += work->trim();
  return bytes;
}

void DeviceWorks::finish() noexcept {
  const MutexLock lock(mutex_);
  for (const auto& [device, work] : all_) work->finish();
}

}  // namespace berth
