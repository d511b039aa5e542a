// SPDX-License-Identifier: Apache-2.0
// Peer access between devices, as far as copies need it: with it they go over the link between the
// two, without it the driver copies through host memory.
// Source: CUDA Programming Guide, "Peer-to-Peer Memory Copy"; CUDA Driver API, cuCtxEnablePeerAccess.
#pragma once

#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Threads  Safe from any thread.
class PeerAccess {
 public:
  /// Lets work of `user` reach the memory of `owner`, another device, where the two can do that. One
  /// driver call, the first time for the pair. Where it is refused, the driver copies all the same:
  /// only a device that has failed says more, and says it again to the copy.
  void enable(DeviceContext& user, DeviceContext& owner) BERTH_EXCLUDES(mutex_);

 private:
  using Pair = std::pair<const DeviceContext*, const DeviceContext*>;

  Mutex mutex_;
  std::vector<Pair> asked_ BERTH_GUARDED_BY(mutex_);  ///< sorted
};

}  // namespace berth
