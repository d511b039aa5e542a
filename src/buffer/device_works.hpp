// SPDX-License-Identifier: Apache-2.0
// The part-by-part copiers, one for each backend device that such a copy has used.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "berth/device.hpp"

#include "base/mutex.hpp"
#include "buffer/device_work.hpp"

namespace berth {

/// Threads  Safe from any thread.
class DeviceWorks {
 public:
  /// Until finish().
  /// Errors  std::bad_alloc.
  [[nodiscard]] DeviceWork& of(Device device, const RegisteredBackend& owner)
      BERTH_EXCLUDES(mutex_);
  /// A transfer with tasks was cancelled, or has failed.
  void wake() noexcept BERTH_EXCLUDES(mutex_);
  /// 0 for a device that was not copied part by part.
  [[nodiscard]] std::size_t staging_bytes(Device device) const BERTH_EXCLUDES(mutex_);
  /// Frees staging memory that no copy uses. Returns its bytes.
  /// Errors  std::bad_alloc.
  std::size_t trim() BERTH_EXCLUDES(mutex_);
  /// Contract: DeviceWork.
  void finish() noexcept BERTH_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::unordered_map<Device, std::unique_ptr<DeviceWork>> all_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
