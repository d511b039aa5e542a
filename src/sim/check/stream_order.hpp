// SPDX-License-Identifier: Apache-2.0
// The order of the default-stream rules as vector clocks, including completed work. Guarded by
// sim::mutex.
// Source: CUDA Driver API, "Stream synchronization behavior": the legacy stream waits for all
// blocking streams of its context, and they wait for it.
#pragma once

#include "sim/check/clock.hpp"
#include "sim/handle_table.hpp"

namespace berth::sim {

struct State;
struct Stream;

/// Adds the default-stream order to `stream`, before its next operation.
void join_default_streams(State& state, Stream& stream);
/// The clock of the work of `stream`; for the legacy stream, also of the streams that it waits for.
Clock clock_of(State& state, const Stream& stream);
/// The clock of the work of `context` (0: of all contexts), including destroyed streams, and of
/// work that the calling thread has observed to be complete.
Clock clock_in(State& state, Handle context);

}  // namespace berth::sim
