// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

/// PeerAccess::enable() for any thread: captures of this one and of others go on.
inline void enable_peer_access(DeviceContext& user, DeviceContext& owner) {
  const ContextScope scope(user);
  const RelaxedCapture relaxed(user.driver());
  do_share_before_call(user);
  do_share_before_call(owner);
  owner.peer_access().enable(user);
}

}  // namespace berth
