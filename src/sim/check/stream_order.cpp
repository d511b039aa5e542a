// SPDX-License-Identifier: Apache-2.0
#include "sim/check/stream_order.hpp"

#include "sim/state.hpp"

namespace berth::sim {

void join_default_streams(State& state, Stream& stream) {
  if (stream.kind == StreamKind::non_blocking) return;
  if (stream.kind == StreamKind::legacy) {
    stream.order.clock = clock_of(state, stream);
    return;
  }
  const Handle legacy = state.contexts.find(stream.context)->legacy_stream;
  state.order.order_after(stream.order, state.streams.find(legacy)->order.clock);
}

Clock clock_of(State& state, const Stream& stream) {
  Clock clock = stream.order.clock;
  if (stream.kind == StreamKind::legacy)
    state.streams.for_each([&](const Stream& other) {
      if (other.context == stream.context && other.kind != StreamKind::non_blocking)
        clock.join(other.order.clock);
    });
  return clock;
}

Clock clock_in(State& state, Handle context) {
  const Clock known = state.order.host();
  Clock clock = known;
  state.order.add_retired(context, clock);
  state.streams.for_each([&](const Stream& stream) {
    if (context == 0 || stream.context == context) clock.join(stream.order.clock, known);
  });
  return clock;
}

}  // namespace berth::sim
