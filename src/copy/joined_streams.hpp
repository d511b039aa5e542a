// SPDX-License-Identifier: Apache-2.0
// A copy ordered with the work of two streams: it is submitted to one of them, which waits for the
// other one before the copy; the other one waits for it after the copy.
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

  /// Errors  StreamCaptured: one of them is captured, and a wait would add the other one to its
  ///         capture.
  void require_like_captures() const {
    if (stream == other || is_capturing(stream) == is_capturing(other)) return;
    throw StreamCaptured(
        "of the two streams of a copy one is captured and the other is not; accepted: two streams "
        "of "
        "one capture, or two that are not captured");
  }
  /// Before the copy is submitted.
  void begin(const EventPoolOf& events_of) const { join(events_of, stream, std::span(&other, 1)); }
  /// After it.
  void end(const EventPoolOf& events_of) const { join(events_of, other, std::span(&stream, 1)); }
};

}  // namespace berth
