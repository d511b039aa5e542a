// SPDX-License-Identifier: Apache-2.0
// The links between devices, as far as copies need them: with peer access a copy goes over the
// link, without it the driver copies through host memory.
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
  /// Lets work of `user` reach the memory of `owner`, another device, where the two can do that
  /// (PeerAccess); asked for once for the pair. Where it is refused, the driver copies all the
  /// same: only a device that has failed says more, and says it again to the copy.
  void open(DeviceContext& user, DeviceContext& owner) BERTH_EXCLUDES(mutex_);

 private:
  using Pair = std::pair<const DeviceContext*, const DeviceContext*>;

  Mutex mutex_;
  std::vector<Pair> asked_ BERTH_GUARDED_BY(mutex_);  ///< sorted
};

}  // namespace berth
