// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.hpp"
#include "sim/state.hpp"
#include "sim/work/demand.hpp"
#include "sim/work/scheduler.hpp"

namespace berth::sim {

void Scheduler::spend(std::uint64_t ns) {
  const std::uint64_t until = timeline_.now_ns() + ns;
  // The host may have written a value.
  if (progress_ == Progress::timed && value_waits_ != 0) begin_ready();
  while (timeline_.next_end_ns().value_or(UINT64_MAX) <= until) end_next();
  timeline_.advance_to(std::max(until, timeline_.now_ns()));
}

// An engine takes the head that has waited longest, so two streams with work for it take turns,
// regardless of the lengths of their queues.
void Scheduler::begin_ready() {
  for (std::size_t i = 0; i < at_value_.size();) {
    Stream& stream = *at_value_[i];
    ++heads_examined_;
    if (may_run(stream))
      begin(stream, demand_of(state_, stream.device, stream.queue.front()));
    else
      ++i;
  }
  while (const auto next = turns_.next(timeline_)) begin(*next->stream, next->demand);
}

void Scheduler::begin(Stream& stream, const Demand& demand) {
  leave_place(stream);
  stream.running = true;
  stream.began_ns = timeline_.now_ns();
  if (state_.log.on()) state_.log.begins(stream, stream.queue.front());
  timeline_.begin(stream.device, demand, stream.handle, stream.queue.front().number);
}

bool Scheduler::end_next() {
  if (!timeline_.next_end_ns() && value_waits_ != 0) begin_ready();
  if (!timeline_.next_end_ns()) return false;
  Stream* stream = state_.streams.find(timeline_.end_next());
  BERTH_CHECK(stream != nullptr && stream->running);
  stream->running = false;
  start(*stream);
  begin_ready();
  return true;
}

}  // namespace berth::sim
