// SPDX-License-Identifier: Apache-2.0
// Asking the driver on a thread while another captures.
#pragma once

#include "berth/export.h"

namespace berth {

class DeviceContext;

/// While it exists, the driver lets the calling thread ask about streams and events that are not
/// captured, wait for them and obtain memory, whatever captures are under way. Without it, one capture
/// in the mode `global` anywhere in the process makes each such call fail, and breaks that capture: so
/// a thread that polls events beside a program that captures makes one, for its whole life.
/// What is captured itself may not be asked about all the same.
/// Source: CUDA Driver API, cuThreadExchangeStreamCaptureMode.
///
/// Blocking  Never; one driver call at each end. Nothing where the driver knows no capture modes.
/// Threads   Belongs to the thread that made it; nests like scopes.
class BERTH_API RelaxedCaptureScope {
 public:
  /// Of any device of the driver: StreamRef::context() gives one.
  explicit RelaxedCaptureScope(DeviceContext& context);
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  void swap() noexcept;

  DeviceContext& context_;
  int mode_ = 2;  ///< CU_STREAM_CAPTURE_MODE_RELAXED, until the thread's own is here
};

}  // namespace berth
