// SPDX-License-Identifier: Apache-2.0
// Peer access for copies between devices: with it a copy goes over the link, without it the driver
// copies through host memory.
// Source: CUDA Programming Guide, "Peer-to-Peer Memory Copy".
#pragma once

#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Threads  Safe from any thread.
class PeerLinks {
 public:
  /// Gives work of `user` access to the memory of `owner`, another device, if the two support it
  /// (PeerAccess). The driver is asked once for each pair. If it refuses, it still copies; the
  /// failure of a device is reported by the copy.
  void open(DeviceContext& user, DeviceContext& owner) BERTH_EXCLUDES(mutex_);

 private:
  using Pair = std::pair<const DeviceContext*, const DeviceContext*>;

  Mutex mutex_;
  std::vector<Pair> asked_ BERTH_GUARDED_BY(mutex_);  ///< sorted
};

}  // namespace berth
