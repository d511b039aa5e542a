// SPDX-License-Identifier: Apache-2.0
// The order that the default-stream rules establish, finished work included, as vector clocks.
// Guarded by sim::mutex.
// Source: CUDA Driver API, "Stream synchronization behavior": the legacy stream waits for all
// blocking streams of its context, and they wait for it.
#pragma once

#include "sim/check/clock.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

struct State;
struct Stream;

/// Makes the order of `stream` what its next operation comes after.
void join_default_streams(State& state, Stream& stream);
/// The work of `stream`, and for the legacy stream that of the streams it waits for.
Clock clock_of(State& state, const Stream& stream);
/// The work of `context`, also on streams that are gone; of every context where it is 0; and what
/// the calling thread knows to be done.
Clock clock_in(State& state, Handle context);

}  // namespace berth::sim
