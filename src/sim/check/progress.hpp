// SPDX-License-Identifier: Apache-2.0
// Findings about programs that do not get on. Guarded by sim::mutex.
#pragma once

#include <string>

#include "sim/check/shadow_memory.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// `stream` is asked for, and stands only behind `waiting` in the channel of the two, or behind
/// what waits for it: nothing that is pending, and no thread, ends the wait for a value that
/// `waiting` has at its head, or lets its host function return.
void report_shared_channel(State& state, Stream& stream, Stream& waiting);
/// `asked` is waited for, and needs the head of `needed`: a host function that does not return, or
/// a value that one may yet write.
void report_host_function(State& state, Stream& asked, Stream& needed);
/// `call` finds the queue of `stream` full, and nothing runs: `needed` would have to.
void report_full_queue(State& state, const CallSite& call, const Stream& stream, Stream& needed);
/// `call` waits for the lock of its context, which `holder` has, and nothing runs.
void report_driver_lock(State& state, const CallSite& call, const CallSite& holder);

}  // namespace berth::sim
