// SPDX-License-Identifier: Apache-2.0
#include "copy/direct/peer_links.hpp"

#include <algorithm>

#include "berth/error.hpp"

#include "stream/enable_peer_access.hpp"

namespace berth {

void PeerLinks::open(DeviceContext& user, DeviceContext& owner) {
  const Pair pair(&user, &owner);
  {
    const MutexLock lock(mutex_);
    if (std::ranges::binary_search(opened_, pair)) return;
  }
  const ContextScope scope(user);  // if this fails, so would the copy
  try {
    enable_peer_access(user, owner);
  } catch (const InvalidArgument&) {
    return;  // not from here, but later
  } catch (const Error&) {
    // Some pairs do not support it, and a device has a maximum number of peers.
  }
  // Inserted only now, so that no other thread copies before access is enabled.
  const MutexLock lock(mutex_);
  const auto place = std::ranges::lower_bound(opened_, pair);
  if (place == opened_.end() || *place != pair) opened_.insert(place, pair);
}

}  // namespace berth
