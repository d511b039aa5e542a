// SPDX-License-Identifier: Apache-2.0
// The stream on which a thread currently works, one for each device: what a framework's operators
// use when they are not told a stream.
#pragma once

#include "berth/device_guard.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

/// The calling thread's current stream on `device`'s context; its legacy default stream unless a
/// StreamGuard says otherwise. No driver call.
[[nodiscard]] BERTH_API StreamRef current_stream(DeviceContext& context);

/// Makes a stream current on the calling thread, and its device, as a DeviceGuard does; restores both
/// on destruction. So it calls no driver where the guard around it has the same device current,
/// whatever the stream.
/// Errors   The constructor throws Error where the driver refuses, and then changed nothing. The
///          destructor never throws: what the driver refuses goes to the report sink.
/// Threads  Belongs to the thread that made it; guards of both kinds nest like scopes. Destroying one
///          on another thread, or before one that was made after it, stops the process.
class BERTH_API StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  friend StreamRef current_stream(DeviceContext& context);

  const DeviceGuard device_;
  const StreamRef stream_;
  StreamGuard* const outer_;
};

}  // namespace berth
