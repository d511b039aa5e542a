// SPDX-License-Identifier: Apache-2.0
#include "sim/work/hidden_stream.hpp"

#include <utility>

#include "sim/state.hpp"

namespace berth::sim {

Stream& open_hidden_stream(State& state, const Context& context, const Stream& launcher) {
  Stream& hidden = state.streams.create(context.handle, context.device, StreamKind::non_blocking,
                                        launcher.priority);
  hidden.launcher = launcher.handle;
  if (context.handle == launcher.context) hidden.channel = launcher.channel;
  hidden.caller_handle = launcher.caller_handle;
  return hidden;
}

Submitted submit_behind(State& state, Stream& stream, Work work,
                        const std::vector<Submitted>& after) {
  std::vector<Ticket> tickets;
  for (const Submitted& earlier : after) {
    tickets.push_back(earlier.ticket);
    state.order.order_after(stream.order, earlier.clock);
  }
  const Ticket ticket = state.scheduler.submit(stream, std::move(work), tickets);
  return {ticket, stream.order.latest, stream.order.clock};
}

}  // namespace berth::sim
