// SPDX-License-Identifier: Apache-2.0
// How a call gives a stream work, and how it waits: for room in the stream's queue, for the work
// where launches block, for whatever it synchronises with. In each wait the call holds the driver's
// lock of the context, and sim::mutex is let go of: no pointer into the state holds afterwards but
// those that come back. Guarded by sim::mutex. Source: CUDA Programming Guide,
// "CUDA_LAUNCH_BLOCKING", "CUDA_SCALE_LAUNCH_QUEUES"; CUDA Driver API, "API synchronization
// behavior": "Any CUDA API call may block or synchronize for various reasons such as contention for
// or unavailability of internal resources."
#pragma once

#include <cuda.h>

#include "base/mutex.hpp"
#include "sim/check/shadow_memory.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// `call` waits for `awaited` in `context`; what that brought to light there.
CUresult wait_for(State& state, const CallSite& call, const Awaited& awaited, Handle context)
    BERTH_REQUIRES(mutex);

/// Waits until the queue of `stream` has room; a capture always has. CUDA_SUCCESS: `stream` is
/// where the stream is now. Otherwise what the call must return: nothing is queued. What one call
/// queues at once needs room for one.
CUresult make_room(State& state, const CallSite& call, Stream*& stream) BERTH_REQUIRES(mutex);

/// What `call` does last that has given `stream` work: where launches block, waits for it.
CUresult end_submission(State& state, const CallSite& call, Stream& stream) BERTH_REQUIRES(mutex);

/// The whole: captures `work` where `stream` is being captured, otherwise submits it. Nothing but
/// the error where a rule of captures forbids work on `stream`. Waits for a value block no launch.
CUresult enqueue(State& state, const CallSite& call, Stream& stream, Work work)
    BERTH_REQUIRES(mutex);

}  // namespace berth::sim
