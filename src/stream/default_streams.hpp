// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "berth/stream.hpp"

namespace berth {

/// For what orders memory by a stream beyond the call: on another thread the handle of the
/// per-thread default stream would mean that thread's own.
inline void require_one_stream(StreamRef stream) {
  if (!stream.is_per_thread_default()) return;
  throw InvalidArgument(
      "the per-thread default stream is a different stream on each thread under one handle, so "
      "it cannot order memory; accepted: the legacy default stream, or a stream of its own");
}

}  // namespace berth
