// SPDX-License-Identifier: Apache-2.0
// What StreamRef and EventRef do, without the question whether the stream is captured: for whoever has
// asked is_capturing() just before, or uses a stream that nobody else knows.
#pragma once

#include "berth/event.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Inside of a ContextScope.
bool is_done_in_scope(StreamRef stream);
void sync_unasked(StreamRef stream);
/// `stream` of the event's device.
void record_unasked(EventRef event, StreamRef stream);

}  // namespace berth
