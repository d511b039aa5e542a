// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace berth {

class DeviceContext;

/// Notified of streams that are about to be destroyed, while events can still be recorded on them.
/// Threads  Called on any thread.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  /// Called without a lock of berth's.
  virtual void stream_retiring(DeviceContext& context, CUstream stream) noexcept = 0;
};

}  // namespace berth
