// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA runtime API that the peers call, over a driver of berth's, so that they run
// unmodified on whatever driver berth runs on. Nothing here links NVIDIA's libcudart.
#pragma once

#include "peers/cudart/target.hpp"
#include "support/session.hpp"

namespace berth::bench {

/// Directs a copy of the runtime API to a target. The calls cost at most as much as libcudart's:
/// the current device is cached, as there, and nothing else is added to the driver call. One
/// binding of a copy at a time.
class CudartBinding {
 public:
  /// To the driver of `session`, on the device whose context is current on the calling thread.
  /// Threads that call the runtime API must have that context current.
  CudartBinding(Session& session, LeadCudart& lead);
  /// To no driver, which leaves the CPU cost of the caller.
  explicit CudartBinding(LeadCudart& lead);
  ~CudartBinding();
  CudartBinding(const CudartBinding&) = delete;
  CudartBinding& operator=(const CudartBinding&) = delete;

 private:
  LeadCudart& lead_;
};

}  // namespace berth::bench
