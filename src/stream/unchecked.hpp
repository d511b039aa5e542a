// SPDX-License-Identifier: Apache-2.0
// Functions of StreamRef and EventRef without the capture query, for callers that have just called
// is_capturing(), or that use a private stream.
#pragma once

#include "berth/event.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Within a ContextScope.
bool is_done_in_scope(StreamRef stream);
/// In the capture mode `relaxed` (stream/wait.hpp), unlike sync().
void sync_unchecked(StreamRef stream);
void sync_unchecked(EventRef event);
/// `stream` of the event's device.
void record_unchecked(EventRef event, StreamRef stream);

}  // namespace berth
