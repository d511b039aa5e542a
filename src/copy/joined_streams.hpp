// SPDX-License-Identifier: Apache-2.0
// Orders a copy with the work of two streams: the stream of the copy waits for the other stream
// before the copy, and the other stream waits for the copy.
#pragma once

#include <span>

#include "berth/error.hpp"
#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "stream/capture.hpp"
#include "stream/join.hpp"

namespace berth {

struct JoinedStreams {
  StreamRef stream;  ///< the copy is submitted to it
  StreamRef other;

  /// Errors  StreamCaptured: only one of the streams is captured, and a wait would add the other to
  ///         its capture.
  void require_like_captures() const {
    if (stream == other || is_capturing(stream) == is_capturing(other)) return;
    throw StreamCaptured(
        "only one of the two streams of a copy is captured; accepted: two streams of one capture, "
        "or two that are not captured");
  }
  /// Called before the copy is submitted.
  void begin(const EventPoolOf& events_of) const { join(events_of, stream, std::span(&other, 1)); }
  /// Called after the copy is submitted.
  void end(const EventPoolOf& events_of) const { join(events_of, other, std::span(&stream, 1)); }
};

}  // namespace berth
