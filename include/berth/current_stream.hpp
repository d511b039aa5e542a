// SPDX-License-Identifier: Apache-2.0
// The stream on which a thread currently works, one for each device: what a framework's operators
// use when they are not told a stream.
#pragma once

#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

/// The calling thread's current stream on `device`'s context; its legacy default stream unless a
/// StreamGuard says otherwise. No driver call.
[[nodiscard]] BERTH_API StreamRef current_stream(DeviceContext& context);

/// Makes a stream, and its device, current on the calling thread; restores both on destruction.
/// Threads  Belongs to the thread that made it; guards nest like scopes.
/// Errors   The constructor throws Error where the driver refuses, and then changed nothing.
class BERTH_API StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  friend StreamRef current_stream(DeviceContext& context);

  StreamRef stream_;
  StreamGuard* outer_;
};

}  // namespace berth
