// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {

/// PeerAccess::enable() for any thread, without invalidating a capture.
inline void enable_peer_access(DeviceContext& user, DeviceContext& owner) {
  const ContextScope scope(user);
  const RelaxedCapture relaxed(user.driver());
  make_host_progress(user);
  make_host_progress(owner);
  owner.peer_access().enable(user);
}

}  // namespace berth
