// SPDX-License-Identifier: Apache-2.0
// Driver queries on a thread while another thread captures.
#pragma once

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

class DeviceContext;

/// While this scope exists, the driver lets the calling thread query streams and events that are
/// not captured, wait for them, and allocate memory, whatever captures are in progress. Without it,
/// one capture in the mode `global` anywhere in the process makes each such call fail, and breaks
/// that capture. A thread that polls events while the program captures should hold a scope for its
/// whole life. Captured streams and events still must not be queried. Source: CUDA Driver API,
/// cuThreadExchangeStreamCaptureMode.
///
/// Blocking  Never; one driver call at each end. No effect if the driver has no capture modes.
/// Threads   Belongs to the thread that created it; nests like scopes.
class BERTH_API RelaxedCaptureScope {
 public:
  /// `context`: of any device of the driver, for example StreamRef::context().
  explicit RelaxedCaptureScope(DeviceContext& context);
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  void swap() noexcept;

  DeviceContext& context_;
  int mode_ = 2;  ///< CU_STREAM_CAPTURE_MODE_RELAXED until swapped with the thread's own mode
};

}  // namespace berth
