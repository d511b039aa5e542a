// SPDX-License-Identifier: Apache-2.0
// The two streams between whose work a copy is made.
#pragma once

#include "berth/stream.hpp"

namespace berth {

/// For a copy whose source is written on one stream and whose target is read on another one:
/// usually streams of two devices. The copy begins when the earlier work of both is done, and later
/// work of both begins when the copy is done. So nothing else has to join the two, before the copy
/// or after it, also not to use the source again. The host waits for neither.
///
/// The copy is submitted to `target_stream` where that is a stream of the device of either side,
/// and otherwise to `source_stream`; one of them has to be. With host memory on one side the other
/// stream may be of any device. The same stream twice is as that stream alone.
///
/// Captures  Both streams are captured, by one capture, or neither is: StreamCaptured otherwise,
///           before anything is submitted.
struct CopyStreams {
  StreamRef target_stream;
  StreamRef source_stream;
};

}  // namespace berth
