// SPDX-License-Identifier: Apache-2.0
// Findings about programs that do not make progress. Guarded by sim::mutex.
#pragma once

#include <string>

#include "sim/check/shadow_memory.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// A call needs `stream`, which is blocked, directly or through other streams, only by the channel
/// that it shares with `waiting`. Neither pending work nor a thread ends the wait for a value or
/// the host function at the head of `waiting`.
void report_shared_channel(State& state, Stream& stream, Stream& waiting);
/// What a call does with a stream.
enum class Asks { waits, queries };

/// A call asks for `asked`, which depends on the head of `needed`: a function of the program that
/// does not return, or a value that such a function may still write.
void report_function(State& state, Stream& asked, Stream& needed, Asks asks);
/// Calls query `asked` again and again, which depends on the head of `needed`: a wait for a value
/// that no pending work writes.
void report_queried_wait(State& state, Stream& asked, Stream& needed);
/// `stream` waits for a value that no pending work writes, and the program makes no call.
void report_silent_wait(State& state, Stream& stream);
/// `call` blocks on the full queue of `stream`, and nothing runs; the queue depends on the head of
/// `needed`.
void report_full_queue(State& state, const CallSite& call, const Stream& stream, Stream& needed);
/// `call` waits for the lock of its context, which `holder` holds, and nothing runs.
void report_driver_lock(State& state, const CallSite& call, const CallSite& holder);

}  // namespace berth::sim
