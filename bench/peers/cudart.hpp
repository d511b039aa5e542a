// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA runtime API that CUB's allocator calls, over a driver of berth's, so that
// CUB runs unmodified on whatever driver berth runs on. Nothing here links libcudart.
#pragma once

#include <cuda.h>

#include "driver/driver.hpp"

namespace berth::bench {

/// Where the runtime API of this process leads. The calls cost at most what libcudart's do: the
/// current device is remembered per thread, as there, and nothing else is added to the driver call.
class CudartBinding {
 public:
  /// To `driver`, on the device whose context is current on the calling thread. Threads that call
  /// the runtime API must have that context current.
  explicit CudartBinding(const Driver& driver);
  /// To nothing: each call succeeds at once, and memory is a number that was not given out before.
  /// What is left is the CPU cost of the caller.
  CudartBinding();
  /// One binding at a time; without one each call fails with cudaErrorInitializationError.
  ~CudartBinding();
  CudartBinding(const CudartBinding&) = delete;
  CudartBinding& operator=(const CudartBinding&) = delete;
};

}  // namespace berth::bench
