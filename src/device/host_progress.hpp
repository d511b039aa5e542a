// SPDX-License-Identifier: Apache-2.0
// Host work that streams of a device wait for, such as the host work of a staged copy. A thread
// does this work before it blocks for the device. Otherwise the device work could depend on the
// blocked thread, or on a lock that it holds.
#pragma once

#include <cuda.h>

namespace berth {

class DeviceContext;

/// An implementation makes no driver call and waits for no device.
/// Threads  Called on any thread, concurrently.
class HostProgress {
 public:
  virtual ~HostProgress() = default;
  /// Does the host work that a stream of the device waits for, as far as currently possible. The
  /// caller holds no lock.
  virtual void make_progress(DeviceContext& context, CUstream stream) noexcept = 0;
  /// The same for all streams of a device. May leave work to other threads, so that a thread that
  /// waits for unrelated work is not delayed. The caller may hold locks of berth's: this function
  /// frees no memory and runs no code of the program.
  virtual void make_progress(DeviceContext& context) noexcept = 0;
};

}  // namespace berth
