// SPDX-License-Identifier: Apache-2.0
// Internal streams, which begin and end between two operations of a visible stream and are
// unordered among each other. They execute graphs and batches of copies. Guarded by sim::mutex.
#pragma once

#include <vector>

#include "base/mutex.hpp"
#include "sim/device/context.hpp"
#include "sim/lock.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {

struct State;

/// Opens a stream for work of `context` that `launcher` started. It is not ordered after any work.
Stream& open_hidden_stream(State& state, const Context& context, const Stream& launcher);

/// Submits `work` to `stream`, ordered also after `after`.
Submitted submit_behind(State& state, Stream& stream, Work work,
                        const std::vector<Submitted>& after) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
