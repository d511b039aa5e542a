// SPDX-License-Identifier: Apache-2.0
// How a call submits work to a stream, and how it waits: for room in the stream's queue, for the
// work if launches block, and to synchronize. Each wait holds the driver's lock of the context, and
// releases sim::mutex, which invalidates all pointers into the state except those returned. Guarded
// by sim::mutex. Source: CUDA Programming Guide, "CUDA_LAUNCH_BLOCKING",
// "CUDA_SCALE_LAUNCH_QUEUES"; CUDA Driver API, "API synchronization behavior": "Any CUDA API call
// may block or synchronize for various reasons such as contention for or unavailability of internal
// resources."
#pragma once

#include <cuda.h>

#include "base/mutex.hpp"
#include "sim/check/shadow_memory.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// `call` waits for `awaited` in `context`. Returns a fault of the context.
CUresult wait_for(State& state, const CallSite& call, const Awaited& awaited, Handle context)
    BERTH_REQUIRES(mutex);

/// Waits until the queue of `stream` has room; a capture always has room. CUDA_SUCCESS: `stream` is
/// the current address of the stream. Otherwise the result that the call must return; nothing is
/// queued. Work that one call submits at once needs room for one operation.
CUresult make_room(State& state, const CallSite& call, Stream*& stream) BERTH_REQUIRES(mutex);

/// The last step of a `call` that has submitted work to `stream`: waits for it if launches block.
CUresult end_submission(State& state, const CallSite& call, Stream& stream) BERTH_REQUIRES(mutex);
/// The same after a wait or a record, which are waited for if all calls block.
CUresult end_wait(State& state, const CallSite& call, Stream& stream) BERTH_REQUIRES(mutex);

/// All steps: captures `work` if `stream` is capturing, otherwise submits it. If a rule of captures
/// forbids work on `stream`, only returns the error.
CUresult enqueue(State& state, const CallSite& call, Stream& stream, Work work)
    BERTH_REQUIRES(mutex);

}  // namespace berth::sim
