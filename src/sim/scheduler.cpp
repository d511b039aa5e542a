// SPDX-License-Identifier: Apache-2.0
#include "sim/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.hpp"
#include "sim/demand.hpp"
#include "sim/perform.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Long enough that only a function that cannot return yet is left running.
constexpr std::chrono::milliseconds kHostFunctionPatience{100};
/// What an operation takes in simulated time.
constexpr std::uint64_t kOperationNs = 1000;
/// The random mode runs up to this many operations at a call, less one.
constexpr std::uint64_t kBurst = 4;

}  // namespace

Scheduler::Scheduler(State& state, const Config& config)
    : state_(state),
      progress_(config.progress),
      random_(config.seed),
      timeline_(config.devices, config.jitter_percent, config.seed),
      host_functions_(*this) {}

bool Scheduler::done(const Ticket& ticket) {
  const Stream* stream = state_.streams.find(ticket.stream);
  return stream == nullptr || stream->completed >= ticket.sequence;
}

bool Scheduler::may_run(Stream& stream) {
  if (stream.running) return false;
  for (const Ticket& ticket : stream.queue.front().waits_for)
    if (!done(ticket)) return false;
  return true;
}

// Source: CUDA Driver API, "Stream synchronization behavior": the legacy stream waits for all
// blocking streams of its context, and they wait for it.
void Scheduler::add_default_stream_order(Stream& stream, std::vector<Ticket>& waits_for) {
  if (busy_.empty() || stream.kind == StreamKind::non_blocking) return;
  const bool is_legacy = stream.kind == StreamKind::legacy;
  for (const Stream* other : busy_) {
    if (other == &stream || other->context != stream.context) continue;
    const bool orders =
        is_legacy ? other->kind != StreamKind::non_blocking : other->kind == StreamKind::legacy;
    if (orders) waits_for.push_back({other->handle, other->submitted});
  }
}

void Scheduler::enter_order(Stream& stream, Operation& operation) {
  HappensBefore& order = state_.races.order();
  const bool is_legacy = stream.kind == StreamKind::legacy;
  if (stream.kind != StreamKind::non_blocking)
    state_.streams.for_each([&](const Stream& other) {
      if (other.context != stream.context || other.kind == StreamKind::non_blocking) return;
      if (is_legacy || other.kind == StreamKind::legacy)
        order.order_after(stream.order, other.order.clock);
    });
  order.submit(stream.order);
  operation.stamp = stream.order.latest;
  operation.before = stream.order.clock;
}

Ticket Scheduler::submit(Stream& stream, Work work, std::span<const Ticket> after) {
  Operation operation{.sequence = ++stream.submitted,
                      .number = ++submissions_,
                      .waits_for = {},
                      .work = std::move(work),
                      .call = state_.call};
  if (state_.races.on()) enter_order(stream, operation);
  const Ticket ticket{stream.handle, operation.sequence};
  add_default_stream_order(stream, operation.waits_for);
  for (const Ticket& earlier : after)
    if (!done(earlier)) operation.waits_for.push_back(earlier);

  const bool unobstructed = stream.queue.empty() && operation.waits_for.empty();
  const bool only_orders = std::holds_alternative<WaitWork>(operation.work);
  const bool on_host = std::holds_alternative<HostFunctionWork>(operation.work);
  const bool starts = progress_ == Progress::eager && !held_;
  const bool at_once = only_orders || (starts && !on_host);
  if (unobstructed && at_once) {
    perform(stream, operation);
    stream.completed = operation.sequence;
    return ticket;
  }
  if (stream.queue.empty()) {
    stream.busy_index = busy_.size();
    busy_.push_back(&stream);
  }
  stream.queue.push(std::move(operation));
  if (starts && may_run(stream)) start(stream);
  if (progress_ == Progress::timed && !held_) begin_ready();
  return ticket;
}

void Scheduler::release() {
  held_ = false;
  if (progress_ == Progress::eager) advance();
  if (progress_ == Progress::timed) begin_ready();
}

void Scheduler::perform(Stream& stream, Operation& operation) {
  ++operations_run_;
  if (progress_ != Progress::timed) timeline_.advance_to(timeline_.now_ns() + kOperationNs);
  order_hash_ = (order_hash_ ^ operation.number) * 0x100000001b3;
  Context* context = state_.contexts.find(stream.context);
  BERTH_CHECK(context != nullptr);
  // A context that has faulted runs nothing more.
  if (context->sticky == CUDA_SUCCESS)
    context->sticky = sim::perform(state_, *context, stream, operation);
}

void Scheduler::leave_busy(Stream& stream) {
  busy_[stream.busy_index] = busy_.back();
  busy_[stream.busy_index]->busy_index = stream.busy_index;
  busy_.pop_back();
}

void Scheduler::complete_head(Stream& stream) {
  stream.completed = stream.queue.front().sequence;
  stream.queue.pop();
  if (waiting_ != 0) finished_.notify_all();
  if (!stream.queue.empty()) return;
  leave_busy(stream);
  if (stream.destroyed) remove(stream);
}

void Scheduler::start(Stream& stream) {
  Operation& operation = stream.queue.front();
  perform(stream, operation);
  const auto* on_host = std::get_if<HostFunctionWork>(&operation.work);
  const bool called =
      on_host != nullptr && state_.contexts.find(stream.context)->sticky == CUDA_SUCCESS;
  if (!called) {
    complete_head(stream);
    return;
  }
  const Ticket ticket{stream.handle, operation.sequence};
  stream.running = true;
  if (state_.races.on()) state_.races.order().host_sees(operation.before);
  host_functions_.start(stream.handle, *on_host);
  if (host_functions_.on_thread()) return;
  ++waiting_;
  finished_.wait_for(mutex, kHostFunctionPatience, [&] { return done(ticket); });
  --waiting_;
}

void Scheduler::finish_host_function(Handle handle) {
  Stream* stream = state_.streams.find(handle);
  BERTH_CHECK(stream != nullptr && stream->running);
  stream->running = false;
  complete_head(*stream);
  if (progress_ == Progress::eager) advance();
  if (progress_ == Progress::timed) begin_ready();
}

void Scheduler::advance() {
  while (Stream* stream = any_runnable()) start(*stream);
}

Stream* Scheduler::any_runnable() {
  runnable_.clear();
  for (Stream* stream : busy_)
    if (may_run(*stream)) runnable_.push_back(stream);
  if (runnable_.empty()) return nullptr;
  const std::size_t choice = progress_ == Progress::random ? random_.below(runnable_.size()) : 0;
  return runnable_[choice];
}

void Scheduler::run_some() {
  for (std::uint64_t left = random_.below(kBurst); left != 0; --left) {
    Stream* stream = any_runnable();
    if (stream == nullptr) return;
    start(*stream);
  }
}

Stream* Scheduler::needed_by(Ticket ticket) {
  for (;;) {
    Stream* stream = state_.streams.find(ticket.stream);
    if (stream->running) return nullptr;
    const Ticket* obstacle = nullptr;
    for (const Ticket& earlier : stream->queue.front().waits_for)
      if (!done(earlier)) obstacle = &earlier;
    if (obstacle == nullptr) return stream;
    ticket = *obstacle;
  }
}

void Scheduler::wait_for_host_function() {
  ++waiting_;
  finished_.wait(mutex);
  --waiting_;
}

void Scheduler::wait_for(const Ticket& ticket) {
  while (!done(ticket)) {
    if (progress_ == Progress::timed) {
      if (timeline_.next_end_ns())
        end_next();
      else
        wait_for_host_function();
      continue;
    }
    const bool wander = progress_ == Progress::random && random_.below(2) == 0;
    Stream* stream = wander ? any_runnable() : needed_by(ticket);
    if (stream != nullptr)
      start(*stream);
    else
      wait_for_host_function();
  }
}

void Scheduler::wait(const Awaited& awaited) {
  for (const Ticket& ticket : awaited.tickets) wait_for(ticket);
  if (state_.races.on()) state_.races.order().host_sees(awaited.clock);
}

Awaited Scheduler::work_of(Stream& stream) {
  Awaited awaited;
  if (!stream.queue.empty()) awaited.tickets.push_back({stream.handle, stream.submitted});
  if (stream.kind == StreamKind::legacy) add_default_stream_order(stream, awaited.tickets);
  if (!state_.races.on()) return awaited;
  awaited.clock = stream.order.clock;
  if (stream.kind == StreamKind::legacy)
    state_.streams.for_each([&](const Stream& other) {
      if (other.context == stream.context && other.kind != StreamKind::non_blocking)
        awaited.clock.join(other.order.clock);
    });
  return awaited;
}

Awaited Scheduler::work_in(Handle context) {
  Awaited awaited;
  for (const Stream* stream : busy_)
    if (context == 0 || stream->context == context)
      awaited.tickets.push_back({stream->handle, stream->submitted});
  if (!state_.races.on()) return awaited;
  state_.races.order().add_retired(context, awaited.clock);
  state_.streams.for_each([&](const Stream& stream) {
    if (context == 0 || stream.context == context) awaited.clock.join(stream.order.clock);
  });
  return awaited;
}

void Scheduler::spend(std::uint64_t ns) {
  const std::uint64_t until = timeline_.now_ns() + ns;
  while (timeline_.next_end_ns().value_or(UINT64_MAX) <= until) end_next();
  timeline_.advance_to(std::max(until, timeline_.now_ns()));
}

void Scheduler::begin_ready() {
  for (;;) {
    Stream* best = nullptr;
    Demand demand;
    for (Stream* stream : busy_) {
      if (!may_run(*stream)) continue;
      const bool comes_first = best == nullptr || stream->priority < best->priority ||
                               (stream->priority == best->priority &&
                                stream->queue.front().number < best->queue.front().number);
      if (!comes_first) continue;
      const Demand its = demand_of(state_, stream->queue.front());
      if (!timeline_.has_room(stream->device, its.engine)) continue;
      best = stream;
      demand = its;
    }
    if (best == nullptr) return;
    best->running = true;
    timeline_.begin(best->device, demand, best->handle, best->queue.front().number);
  }
}

void Scheduler::end_next() {
  Stream* stream = state_.streams.find(timeline_.end_next());
  BERTH_CHECK(stream != nullptr && stream->running);
  stream->running = false;
  start(*stream);
  begin_ready();
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

void Scheduler::destroy(Stream& stream) {
  if (stream.queue.empty())
    remove(stream);
  else
    stream.destroyed = true;
}

void Scheduler::remove(Stream& stream) {
  state_.races.order().retire(stream.order, stream.context);
  state_.streams.erase(stream.handle);
}

}  // namespace berth::sim
