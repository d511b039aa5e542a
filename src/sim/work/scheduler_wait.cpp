// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "sim/check/pending_use.hpp"
#include "sim/check/progress.hpp"
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

void Scheduler::host_sees(const Clock& done) {
  if (state_.order.on()) state_.order.host_sees(done);
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
    Stream& needed = *needed_by(ticket).stream;
    if (needed.running) return nullptr;
    // Any pending work may write the value.
    return lacks_value(needed, needed.queue.front()) ? any_runnable() : &needed;
  };
  Stream* const stream = choose();
  if (stream == nullptr) return false;
  start(*stream);
  return true;
}

bool Scheduler::run_one() {
  if (progress_ == Progress::timed) return end_next();
  Stream* const stream = any_runnable();
  if (stream == nullptr) return false;
  start(*stream);
  return true;
}

Scheduler::Need Scheduler::needed_by(Ticket ticket) {
  Need need{};
  for (;;) {
    need.stream = state_.streams.find(ticket.stream);
    if (need.stream->running) return need;
    Operation& head = need.stream->queue.front();
    const Ticket* const obstacle = obstacle_of(head);
    if (obstacle == nullptr) return need;
    const bool waits_for_work = !head.waits_for.empty();
    if (!waits_for_work) need.delayed = need.stream;
    ticket = *obstacle;
  }
}

bool Scheduler::needs_host(const Need& need) {
  const Operation& head = need.stream->queue.front();
  if (need.stream->running)
    return need.stream->computing || std::holds_alternative<HostFunctionWork>(head.work);
  return lacks_value(*need.stream, head);
}

Scheduler::Need Scheduler::delay_of(const Need& need) {
  if (need.delayed != nullptr) return need;
  const auto* wait = std::get_if<WaitValueWork>(&need.stream->queue.front().work);
  if (wait == nullptr) return {};
  for (Stream* stream : busy_) {
    const std::uint64_t writer = find_pending_write(*stream, wait->address, wait->bytes);
    if (writer == 0) continue;
    const Need of_writer = needed_by({stream->handle, writer});
    if (of_writer.delayed != nullptr) return of_writer;
  }
  return {};
}

void Scheduler::separate(const Need& need) {
  report_shared_channel(state_, *need.delayed, *need.stream);
  detach_from_channel(*need.delayed);
}

// Work after `stream` in the channel stays ordered after the predecessors of `stream`.
void Scheduler::detach_from_channel(Stream& stream) {
  std::vector<std::pair<std::uint64_t, std::vector<Ticket>>> taken;
  stream.queue.for_each([&](Operation& operation) {
    if (operation.in_channel.empty()) return;
    taken.emplace_back(operation.sequence, std::exchange(operation.in_channel, {}));
  });
  const auto inherit = [&](std::vector<Ticket>& tickets, Handle heir) {
    std::uint64_t through = 0;
    for (const Ticket& ticket : tickets)
      if (ticket.stream == stream.handle) through = ticket.sequence;
    for (const auto& [sequence, behind] : taken)
      for (const Ticket& ticket : behind)
        if (sequence <= through && ticket.stream != heir && !done(ticket))
          tickets.push_back(ticket);
  };
  for (Stream* other : busy_)
    other->queue.for_each(
        [&](Operation& operation) { inherit(operation.in_channel, other->handle); });
  ChannelWaits& waits = waits_beside(stream);
  inherit(waits.last(), 0);
  waits.drop_if([&](const Ticket& ticket) { return ticket.stream == stream.handle; });
  stream.channel = std::nullopt;
  place(stream);
}

void Scheduler::pause() {
  ++waiting_;
  finished_.wait_for(mutex, pause_interval_.next(steps()));
  --waiting_;
}

void Scheduler::sleep(const Ticket& ticket, Stall& stall) {
  pause();
  if (done(ticket)) return;
  const Need need = needed_by(ticket);
  // A thread that waits for the driver's lock goes first: it may be the one that makes progress.
  const bool holds = !state_.driver_lock.is_awaited() && needs_host(need);
  if (stall.lasts(holds, steps(), state_.config.stall_ms)) resolve_stall(ticket, need);
}

void Scheduler::resolve_stall(const Ticket& ticket, const Need& need) {
  const Need delayed = delay_of(need);
  if (delayed.delayed != nullptr) return separate(delayed);
  const auto* wait = std::get_if<WaitValueWork>(&need.stream->queue.front().work);
  Stream* const at_work = state_.streams.find(running_function());
  if (wait != nullptr && at_work == nullptr) return fail_wait(state_, *need.stream, *wait);
  // The function may wait for work that only a call runs, and may still write the value.
  Stream* const other = progress_ == Progress::timed ? nullptr : any_runnable();
  if (other != nullptr) return start(*other);
  if (at_work == nullptr || !is_first_report(*at_work)) return;
  report_function(state_, *state_.streams.find(ticket.stream), *need.stream, Asks::waits);
}

bool Scheduler::is_first_report(Stream& blocked) {
  const std::uint64_t head = blocked.queue.front().sequence;
  return std::exchange(blocked.reported, head) != head;
}

Stream* Scheduler::blocked_wait() {
  if (host_functions_.is_busy() || !computing_.empty()) return nullptr;
  Stream* first = nullptr;
  for (Stream* stream : at_value_) {
    const Operation& head = stream->queue.front();
    if (std::get<WaitValueWork>(head.work).is_kernel || !lacks_value(*stream, head)) continue;
    if (first == nullptr || head.number < first->queue.front().number) first = stream;
  }
  return first;
}

void Scheduler::report_silence(Stream& blocked) {
  const Need delayed = delay_of({&blocked, nullptr});
  if (delayed.delayed != nullptr) return separate(delayed);
  if (is_first_report(blocked)) report_silent_wait(state_, blocked);
}

bool Scheduler::wait_for_room(Handle stream, std::size_t limit, const CallSite& call) {
  Stall stall;
  for (;;) {
    const Stream* found = state_.streams.find(stream);
    if (found == nullptr || found->queue.size() < limit) return true;
    const Ticket oldest{stream, found->queue.front().sequence};
    if (run_for(oldest)) continue;
    pause();
    if (done(oldest)) continue;
    // The cause is unknown; it may also be a host function that waits for the caller.
    const bool holds = !state_.driver_lock.is_awaited();
    if (!stall.lasts(holds, steps(), state_.config.stall_ms)) continue;
    const Need need = needed_by(oldest);
    const Need delayed = needs_host(need) ? delay_of(need) : Need{};
    if (delayed.delayed == nullptr) {
      report_full_queue(state_, call, *state_.streams.find(stream), *need.stream);
      return false;
    }
    separate(delayed);
  }
}

void Scheduler::note_pending_query(const Ticket& ticket) {
  const bool may_stall = value_waits_ != 0 || host_functions_.is_busy() || !computing_.empty();
  if (!may_stall || state_.driver_lock.is_awaited()) return;
  const Need need = needed_by(ticket);
  if (!needs_host(need) || has_runnable()) return;
  if (!pending_queries_.lasts_while_polled(steps(), state_.config.stall_ms)) return;
  const Need delayed = delay_of(need);
  if (delayed.delayed != nullptr) return separate(delayed);
  Stream& asked = *state_.streams.find(ticket.stream);
  if (Stream* const at_work = state_.streams.find(running_function()); at_work != nullptr) {
    if (is_first_report(*at_work)) report_function(state_, asked, *need.stream, Asks::queries);
    return;
  }
  // A kernel that polls may idle for as long as the program likes.
  const bool is_kernel = std::get<WaitValueWork>(need.stream->queue.front().work).is_kernel;
  if (!is_kernel && is_first_report(*need.stream)) report_queried_wait(state_, asked, *need.stream);
}

bool Scheduler::has_runnable() {
  if (progress_ == Progress::timed && timeline_.next_end_ns()) return true;
  return !ready_.empty() || std::any_of(at_value_.begin(), at_value_.end(),
                                        [&](const Stream* stream) { return may_run(*stream); });
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
