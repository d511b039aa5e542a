// SPDX-License-Identifier: Apache-2.0
// Peer access for copies between devices. With peer access a copy uses the link; without it the
// driver copies through host memory.
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
  /// Enables access of `user` to the memory of `owner`, another device, if the two support it
  /// (PeerAccess). Called once for each pair of devices. If the driver refuses, it can still copy;
  /// the copy reports a failed device.
  void open(DeviceContext& user, DeviceContext& owner) BERTH_EXCLUDES(mutex_);

 private:
  using Pair = std::pair<const DeviceContext*, const DeviceContext*>;

  Mutex mutex_;
  std::vector<Pair> opened_ BERTH_GUARDED_BY(mutex_);  ///< sorted
};

}  // namespace berth
