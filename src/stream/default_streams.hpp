// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "berth/stream.hpp"

namespace berth {

/// For functions that order memory by a stream after the call: on another thread, the handle of the
/// per-thread default stream refers to another stream.
inline void refuse_per_thread_default(StreamRef stream) {
  if (!stream.is_per_thread_default()) return;
  throw InvalidArgument(
      "the per-thread default stream is a different stream on each thread under one handle, so "
      "it cannot order memory; accepted: the legacy default stream, or a stream of its own");
}

}  // namespace berth
