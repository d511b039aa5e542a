// SPDX-License-Identifier: Apache-2.0
// What may not be done while streams are being captured. Each function gives what the call must
// return, CUDA_SUCCESS where it may go on; where it refuses, it has invalidated the captures that
// the call would have disturbed, unless it says otherwise. Guarded by sim::mutex. Source: CUDA
// Programming Guide, "Prohibited and Unhandled Operations", "Invalidation"; CUDA Driver API,
// cuThreadExchangeStreamCaptureMode.
#pragma once

#include <cuda.h>

#include "sim/device/context.hpp"
#include "sim/graph/capture.hpp"

namespace berth::sim {

/// New work on `stream`. A capture that was invalid before stays so.
CUresult refuse_use(State& state, const Stream& stream);
/// The legacy stream while a blocking stream of its context is being captured: whatever is done
/// with it would depend on captured work. Invalidates nothing.
CUresult refuse_legacy(State& state, const Stream& stream);

/// Asking or waiting whether work is done: that of a stream, before an event, of a context.
CUresult refuse_observation(State& state, const Stream& stream);
CUresult refuse_observation(State& state, const Event& event);
CUresult refuse_observation(State& state, const Context& context);

/// A call that may change what a capture would have recorded, such as cuMemAlloc, as far as the
/// calling thread's mode and the modes of the captures have it.
CUresult refuse_unsafe(State& state);

/// Work on `stream` that no graph can hold, and that breaks a capture of it, such as a callback.
CUresult refuse_unrecordable(State& state, const Stream& stream);

/// cuStreamWaitEvent of what `event` was last recorded behind.
CUresult refuse_wait(State& state, const Stream& stream, const Event& event);

/// Ending the capture of `stream` in the calling thread.
CUresult refuse_end(State& state, const Stream& stream);

}  // namespace berth::sim
