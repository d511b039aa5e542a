// SPDX-License-Identifier: Apache-2.0
// Work beside a stream: streams that no call sees, which begin and end between two operations of a
// visible one, and run in any order among one another. So runs a graph, and a batch of copies.
// Guarded by sim::mutex.
#pragma once

#include <vector>

#include "base/mutex.hpp"
#include "sim/device/context.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// For work of `context` that `launcher` started. Ordered behind nothing.
Stream& open_hidden_stream(State& state, const Context& context, const Stream& launcher);

/// Submits `work` to `stream`, behind `after` too.
Submitted submit_behind(State& state, Stream& stream, Work work,
                        const std::vector<Submitted>& after) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
