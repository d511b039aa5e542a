// SPDX-License-Identifier: Apache-2.0
// The calls that are forbidden while streams capture. Each function returns the result of the call,
// CUDA_SUCCESS if it may continue; if it refuses, it has invalidated the affected captures unless
// documented otherwise. Guarded by sim::mutex. Source: CUDA Programming Guide, "Prohibited and
// Unhandled Operations", "Invalidation"; CUDA Driver API, cuThreadExchangeStreamCaptureMode.
#pragma once

#include <cuda.h>

#include "sim/device/context.hpp"
#include "sim/graph/capture.hpp"

namespace berth::sim {

/// New work on `stream`. A capture that was already invalid stays invalid.
CUresult refuse_use(State& state, const Stream& stream);
/// The legacy stream while a blocking stream of its context captures: any use of it would depend on
/// captured work. Invalidates nothing.
CUresult refuse_legacy(State& state, const Stream& stream);

/// Queries of, and waits for, the work of a stream, before an event, or of a context.
CUresult refuse_observation(State& state, const Stream& stream);
CUresult refuse_observation(State& state, const Event& event);
CUresult refuse_observation(State& state, const Context& context);

/// A call that may change what a capture would have recorded, such as cuMemAlloc, depending on the
/// modes of the calling thread and of the captures.
CUresult refuse_unsafe(State& state);

/// Work on `stream` that a graph cannot contain, such as a callback; invalidates a capture of it.
CUresult refuse_unrecordable(State& state, const Stream& stream);

/// cuStreamWaitEvent of the latest record of `event`.
CUresult refuse_wait(State& state, const Stream& stream, const Event& event);

/// The end of the capture of `stream` in the calling thread.
CUresult refuse_end(State& state, const Stream& stream);

}  // namespace berth::sim
