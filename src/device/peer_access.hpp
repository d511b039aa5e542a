// SPDX-License-Identifier: Apache-2.0
// The devices with access to the memory of a device. They have access to memory of cuMemAlloc once
// it is enabled for their contexts (cuCtxEnablePeerAccess). Memory mapped by cuMemMap needs access
// for each device and mapping. Source: CUDA Programming Guide, "Peer-to-Peer Memory Access" and
// "Virtual Memory Management".
#pragma once

#include <list>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

class DeviceContext;

/// Maps memory of a device.
/// Threads  Safe from any thread.
class MappedMemory {
 public:
  virtual ~MappedMemory() = default;
  /// Allows `user` to read and write all present and future mappings. No effect if it may already.
  /// Errors  DriverError: it has no access to future mappings, and may have access to present ones.
  ///         InvalidArgument: called inside a mapping callback.
  virtual void grant_access(DeviceContext& user) = 0;
};

/// Users and memory are entered first, and access is granted then, without a lock: the memory may
/// need a lock under which the program is called back, and the program may call this. Of a user and
/// memory that are entered at the same time, at least one finds the other.
/// Threads  Safe from any thread.
class PeerAccess {
 public:
  explicit PeerAccess(DeviceContext& owner) : owner_(owner) {}

  /// Allows `user`, another device, access to the owner's memory. Driver calls only until a call
  /// has succeeded. Within a ContextScope of `user`.
  /// Errors  DriverError: not supported, or failed; the next call tries again. Those of
  ///         MappedMemory::grant_access().
  void enable(DeviceContext& user) BERTH_EXCLUDES(mutex_);

  /// Grants access to the devices that have it already, and to those that receive it later.
  /// Errors  As MappedMemory::grant_access(): it has not been added.
  void add(MappedMemory& memory) BERTH_EXCLUDES(mutex_);
  /// Before it is destroyed. Waits for calls of its grant_access() by other threads. No effect if
  /// it was not added.
  void remove(MappedMemory& memory) noexcept BERTH_EXCLUDES(mutex_);
  /// Whether all memory has been removed.
  [[nodiscard]] bool is_empty() BERTH_EXCLUDES(mutex_);

 private:
  struct User {
    DeviceContext* context;
    int calls = 0;         ///< of enable(), in progress
    bool has_all = false;  ///< a call has succeeded
  };
  struct Memory {
    MappedMemory* memory;
    int calls = 0;           ///< of grant_access() by enable(), in progress
    bool is_ending = false;  ///< no such call begins any more
  };

  void grant_all(DeviceContext& user) BERTH_EXCLUDES(mutex_);
  [[nodiscard]] std::list<User>::iterator begin_call(DeviceContext& user) BERTH_EXCLUDES(mutex_);
  void end_call(std::list<User>::iterator user, bool has_all) noexcept BERTH_EXCLUDES(mutex_);

  DeviceContext& owner_;
  Mutex mutex_;
  ConditionVariable returned_;
  std::list<User> users_ BERTH_GUARDED_BY(mutex_);
  std::list<Memory> memory_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
