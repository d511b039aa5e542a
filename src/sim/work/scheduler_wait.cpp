// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sim/check/stream_order.hpp"
#include "sim/state.hpp"
#include "sim/work/scheduler.hpp"

namespace berth::sim {

Awaited Scheduler::work_of(Stream& stream) {
  Awaited awaited;
  if (!stream.queue.empty()) awaited.tickets.push_back({stream.handle, stream.submitted});
  if (stream.kind == StreamKind::legacy) add_default_stream_order(stream, awaited.tickets);
  if (state_.order.on()) awaited.clock = clock_of(state_, stream);
  return awaited;
}

Awaited Scheduler::work_in(Handle context) {
  Awaited awaited;
  for (const Stream* stream : busy_)
    if (context == 0 || stream->context == context)
      awaited.tickets.push_back({stream->handle, stream->submitted});
  if (state_.order.on()) awaited.clock = clock_in(state_, context);
  return awaited;
}

void Scheduler::wait(const Awaited& awaited) {
  for (const Ticket& ticket : awaited.tickets) wait_for(ticket);
  if (state_.order.on()) state_.order.host_sees(awaited.clock);
}

void Scheduler::wait_for(const Ticket& ticket) {
  Stall stall;
  while (!done(ticket))
    if (!run_for(ticket)) sleep(ticket, stall);
}

bool Scheduler::run_for(const Ticket& ticket) {
  if (progress_ == Progress::timed) return end_next();
  const auto choose = [&]() -> Stream* {
    const bool wander = progress_ == Progress::random && random_.below(2) == 0;
    if (wander) return any_runnable();
    Stream& needed = needed_by(ticket);
    if (needed.running) return nullptr;
    // A value may come from anything that is pending.
    return lacks_value(needed, needed.queue.front()) ? any_runnable() : &needed;
  };
  Stream* const stream = choose();
  if (stream == nullptr) return false;
  start(*stream);
  return true;
}

Stream& Scheduler::needed_by(Ticket ticket) {
  for (;;) {
    Stream* stream = state_.streams.find(ticket.stream);
    if (stream->running) return *stream;
    const Ticket* obstacle = nullptr;
    for (const Ticket& earlier : stream->queue.front().waits_for)
      if (!done(earlier)) obstacle = &earlier;
    if (obstacle == nullptr) return *stream;
    ticket = *obstacle;
  }
}

void Scheduler::sleep(const Ticket& ticket, Stall& stall) {
  ++waiting_;
  if (value_waits_ == 0)
    finished_.wait(mutex);
  else
    finished_.wait_for(mutex, kValuePollInterval);
  --waiting_;
  if (done(ticket)) return;
  Stream& needed = needed_by(ticket);
  // A host function that runs may yet write the value.
  const bool holds =
      std::none_of(busy_.begin(), busy_.end(), [](Stream* busy) { return busy->running; }) &&
      lacks_value(needed, needed.queue.front());
  if (!stall.lasts(holds, operations_run_, state_.config.stall_ms)) return;
  give_up(state_, needed, std::get<WaitValueWork>(needed.queue.front().work));
}

Stream* Scheduler::runnable_chain(const Stream& launcher) {
  for (Stream* stream : busy_)
    if (stream->launcher == launcher.handle && may_run(*stream)) return stream;
  return nullptr;
}

bool Scheduler::run_next(Stream& stream) {
  if (stream.queue.empty()) return false;
  Stream* const source = may_run(stream) ? &stream : runnable_chain(stream);
  if (source == nullptr) return false;
  const Ticket next{source->handle, source->queue.front().sequence};
  start(*source);
  wait_for(next);  // a host function may still run
  return true;
}

std::size_t Scheduler::run_all() {
  const std::uint64_t before = operations_run_;
  while (!busy_.empty()) wait_for({busy_.front()->handle, busy_.front()->submitted});
  return operations_run_ - before;
}

}  // namespace berth::sim
