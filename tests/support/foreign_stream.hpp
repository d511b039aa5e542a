// SPDX-License-Identifier: Apache-2.0
// Streams that berth does not own, like those of frameworks: berth is not notified when they end.
#pragma once

#include <utility>

#include <doctest/doctest.h>

#include "berth/stream.hpp"

#include "device/device_context.hpp"
#include "sim/functions.hpp"

namespace berth::test {

/// The test owns the stream from now on.
inline StreamRef disown(Stream stream) {
  const StreamRef ref = stream.ref();
  stream.release();
  return ref;
}

/// Destroys the stream without notifying berth.
inline void destroy_disowned(StreamRef ref) {
  const ContextScope scope(ref.context());
  REQUIRE(sim::berth_sim_cuStreamDestroy(ref.native()) == CUDA_SUCCESS);
}

}  // namespace berth::test
