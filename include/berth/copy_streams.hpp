// SPDX-License-Identifier: Apache-2.0
// The two streams that order a copy.
#pragma once

#include "berth/stream.hpp"

namespace berth {

/// For a copy whose source is written on one stream and whose target is read on another, usually
/// streams of two devices. The copy begins when the earlier work of both is done, and later work of
/// both begins when the copy is done. So no other wait between the two is needed, before or after
/// the copy, not even to reuse the source. The host waits for neither.
///
/// The copy is submitted to `target_stream` if that is a stream of the device of either side, and
/// otherwise to `source_stream`, which must then be one. If one side is host memory, the other
/// stream may be of any device. The same stream twice is the same as that stream alone.
///
/// Captures  Both streams must be captured by one capture, or neither. Otherwise StreamCaptured,
///           before anything is submitted.
struct CopyStreams {
  StreamRef target_stream;
  StreamRef source_stream;
};

}  // namespace berth
