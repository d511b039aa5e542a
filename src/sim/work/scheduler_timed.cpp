// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

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

// An engine takes what has waited for it longest: of two streams with work for it each has its
// turn, however much either has queued.
void Scheduler::begin_ready() {
  const auto turn = [](Stream& stream) {
    return std::tuple(stream.priority, *stream.ready_ns, stream.queue.front().number);
  };
  for (;;) {
    Stream* best = nullptr;
    Demand demand;
    for (Stream* stream : busy_) {
      if (!may_run(*stream)) continue;
      if (!stream->ready_ns) stream->ready_ns = timeline_.now_ns();
      if (best != nullptr && turn(*best) < turn(*stream)) continue;
      const Demand its = demand_of(state_, stream->queue.front());
      if (!timeline_.has_room(stream->device, its.engine)) continue;
      best = stream;
      demand = its;
    }
    if (best == nullptr) return;
    best->running = true;
    best->ready_ns.reset();
    if (state_.log.on()) state_.log.begins(*best, best->queue.front());
    timeline_.begin(best->device, demand, best->handle, best->queue.front().number);
  }
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
