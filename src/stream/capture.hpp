// SPDX-License-Identifier: Apache-2.0
// Stream capture, for code that calls the driver while a capture is in progress on this thread or
// another. Source: CUDA Driver API, cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "berth/stream.hpp"

#include "driver/driver.hpp"

namespace berth {

/// Whether a query, wait or event record on the stream would invalidate a capture: the stream is
/// captured, or it is the legacy default stream and a stream that synchronizes with it is captured.
bool is_capturing(StreamRef stream);
/// The same, called within a ContextScope.
bool is_capturing_in_scope(StreamRef stream);

/// The capture that a stream belongs to.
struct CaptureState {
  /// The same as is_capturing().
  bool is_capturing = false;
  /// The graph that the stream's work is captured into, owned by the capture; null if the stream is
  /// in no valid capture, or the driver cannot report it.
  CUgraph graph = nullptr;
  std::uint64_t id = 0;  ///< unique id of the capture; 0 without a graph
};
/// Makes one driver call if the driver provides it.
CaptureState capture_of(StreamRef stream);

/// Whether a stream of the device is known to be captured, or was captured at its last query and
/// must not be queried now. Synchronizing the device would invalidate that capture. berth knows
/// only captures that it has observed.
bool may_be_capturing(DeviceContext& context);

/// Whether two captured streams belong to the same capture. True if the driver cannot report it.
bool in_one_capture(StreamRef stream, StreamRef other);

/// Throws StreamCaptured. `action` completes "a stream cannot be ...".
[[noreturn]] void refuse_captured(StreamRef stream, const char* action);

/// As long as it exists, its thread is in the relaxed capture mode: the driver neither refuses the
/// thread's calls nor breaks captures of other threads for them. For calls that touch nothing
/// captured, such as event queries and growth.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() { driver_.try_thread_exchange_capture_mode(&mode_); }

  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace berth
