// SPDX-License-Identifier: Apache-2.0
#include "copy/direct/peer_access.hpp"

#include <algorithm>

#include "stream/capture.hpp"

namespace berth {

void PeerAccess::enable(DeviceContext& user, DeviceContext& owner) {
  const Pair pair(&user, &owner);
  {
    const MutexLock lock(mutex_);
    const auto place = std::ranges::lower_bound(asked_, pair);
    if (place != asked_.end() && *place == pair) return;
  }
  const CUcontext other = owner.primary();
  const ContextScope scope(user);
  RelaxedCapture relaxed(user.driver());  // captures of this thread and of others go on
  relaxed.begin();
  // The program may have enabled it itself; some pairs cannot, and a device has room for so many peers.
  user.driver().try_ctx_enable_peer_access(other, 0u);
  // Noted only now: who comes meanwhile asks as well, and does not copy before it is enabled.
  const MutexLock lock(mutex_);
  const auto place = std::ranges::lower_bound(asked_, pair);
  if (place == asked_.end() || *place != pair) asked_.insert(place, pair);
}

}  // namespace berth
