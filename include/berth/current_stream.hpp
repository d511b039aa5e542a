// SPDX-License-Identifier: Apache-2.0
// The current stream of a thread, one for each device: the stream of operators that are not given a
// stream.
#pragma once

#include "berth/device_guard.hpp"
#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

/// The calling thread's current stream in `context`: its legacy default stream, unless a
/// StreamGuard selects another. No driver call.
[[nodiscard]] BERTH_API StreamRef current_stream(DeviceContext& context);

/// Makes a stream and its device current on the calling thread, and restores both on destruction.
/// It makes no driver call if the enclosing guard has the same current device, whatever the stream.
/// Errors   The constructor throws Error if the driver refuses, and then has changed nothing. The
///          destructor never throws; driver errors go to the report sink.
/// Threads  Belongs to the thread that created it. StreamGuards and DeviceGuards nest in each other
///          like scopes. Destroying a guard on another thread, or before a guard that was created
///          later, stops the process.
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
