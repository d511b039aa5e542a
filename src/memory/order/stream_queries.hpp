// SPDX-License-Identifier: Apache-2.0
// Queries whether the work of several streams is done. The relaxed capture mode and each device's
// context are entered once for all queries.
#pragma once

#include <optional>

#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"

namespace berth {

/// Threads  The thread that created it, which does not change its context meanwhile.
class StreamQueries {
 public:
  explicit StreamQueries(const Driver& driver) : driver_(driver) {}

  /// Enters the relaxed capture mode, for other queries too, such as those of events.
  void begin() {
    if (!relaxed_) relaxed_.emplace(driver_);
  }
  /// Whether the stream is not captured and all its work is done.
  /// Errors  DriverError.
  bool is_idle(StreamRef stream) {
    begin();
    if (context_ != &stream.context()) {
      context_ = nullptr;
      scope_.reset();
      scope_.emplace(stream.context());
      context_ = &stream.context();
    }
    return !is_capturing_in_scope(stream) && is_done_in_scope(stream);
  }

 private:
  const Driver& driver_;
  std::optional<RelaxedCapture> relaxed_;  ///< none before the first query
  DeviceContext* context_ = nullptr;       ///< that of the scope
  std::optional<ContextScope> scope_;
};

}  // namespace berth
