// SPDX-License-Identifier: Apache-2.0
// The devices with access to the memory of a device. They have access to memory of cuMemAlloc once
// it is enabled for their contexts (cuCtxEnablePeerAccess). Memory mapped by cuMemMap needs access
// for each device and mapping. Source: CUDA Programming Guide, "Peer-to-Peer Memory Access" and
// "Virtual Memory Management".
#pragma once

#include <vector>

#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// Maps memory of a device.
/// Threads  Called on any thread, one call at a time.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  /// Allows `user` to read and write all present and future mappings.
  /// Errors  DriverError: it has no access to future mappings, and may have access to present ones.
  virtual void grant_access(DeviceContext& user) = 0;
};

/// Threads  Safe from any thread.
class PeerAccess {
 public:
  explicit PeerAccess(DeviceContext& owner) : owner_(owner) {}

  /// Allows `user`, another device, access to the owner's memory. Driver calls only the first time.
  /// Within a ContextScope of `user`.
  /// Errors  DriverError: not supported, or failed; the next call tries again.
  void enable(DeviceContext& user) BERTH_EXCLUDES(mutex_);

  /// Grants access to the devices that have it already, and to those that receive it later. Errors
  /// As MappedMemory::grant_access(): it has not been added.
  void add(MappedMemory& memory) BERTH_EXCLUDES(mutex_);
  /// Before it is destroyed. No effect if it was not added.
  void remove(MappedMemory& memory) noexcept BERTH_EXCLUDES(mutex_);
  /// Whether all memory has been removed.
  [[nodiscard]] bool is_empty() BERTH_EXCLUDES(mutex_);

 private:
  DeviceContext& owner_;
  /// Held during driver calls, so that memory which is added meanwhile is not left out.
  Mutex mutex_;
  std::vector<DeviceContext*> users_ BERTH_GUARDED_BY(mutex_);
  std::vector<MappedMemory*> memory_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
