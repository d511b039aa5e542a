// SPDX-License-Identifier: Apache-2.0
#include "sim/work/scheduler.hpp"

#include <chrono>

#include "base/check.hpp"
#include "sim/check/stream_order.hpp"
#include "sim/state.hpp"
#include "sim/work/perform.hpp"

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
      timeline_(config.places(), config.jitter_percent, config.seed),
      host_functions_(*this),
      value_watch_(*this) {}

bool Scheduler::done(const Ticket& ticket) {
  const Stream* stream = state_.streams.find(ticket.stream);
  return stream == nullptr || stream->completed >= ticket.sequence;
}

bool Scheduler::may_run(Stream& stream) {
  if (stream.running) return false;
  for (const Ticket& ticket : stream.queue.front().waits_for)
    if (!done(ticket)) return false;
  return !lacks_value(stream, stream.queue.front());
}

bool Scheduler::lacks_value(const Stream& stream, const Operation& operation) {
  const auto* wait = std::get_if<WaitValueWork>(&operation.work);
  return wait != nullptr && !value_is_there(state_, *state_.contexts.find(stream.context), *wait);
}

// Source: see stream_order.hpp. Here for work that is not done.
void Scheduler::add_default_stream_order(const Stream& stream, std::vector<Ticket>& waits_for) {
  if (busy_.empty() || stream.kind == StreamKind::non_blocking) return;
  const bool is_legacy = stream.kind == StreamKind::legacy;
  for (const Stream* other : busy_) {
    if (other == &stream || other->context != stream.context) continue;
    const bool orders =
        is_legacy ? other->kind != StreamKind::non_blocking : other->kind == StreamKind::legacy;
    if (orders) waits_for.push_back({other->handle, other->submitted});
  }
}

// A channel passes on in the order of submission what the streams in it are given. Only a value can
// come from work that is submitted later: without one it all gets on, and there is no need to look.
void Scheduler::add_channel_order(const Stream& stream, Operation& operation) {
  const bool out_of_order = std::holds_alternative<FetchWork>(operation.work);
  if (value_waits_ == 0 || !stream.channel || out_of_order) return;
  for (const Stream* other : busy_) {
    if (other == &stream || other->context != stream.context) continue;
    if (other->channel != stream.channel || other->last_wait <= other->completed) continue;
    operation.waits_for.push_back({other->handle, other->last_wait});
    ++operation.in_channel;
  }
}

void Scheduler::enter_order(Stream& stream, Operation& operation) {
  join_default_streams(state_, stream);
  state_.order.submit(stream.order);
  operation.stamp = stream.order.latest;
  operation.before = stream.order.clock;
}

Ticket Scheduler::submit(Stream& stream, Work work, std::span<const Ticket> after) {
  Operation operation{.sequence = ++stream.submitted,
                      .number = ++submissions_,
                      .waits_for = {},
                      .work = std::move(work),
                      .call = state_.call};
  if (state_.order.on()) enter_order(stream, operation);
  const Ticket ticket{stream.handle, operation.sequence};
  add_default_stream_order(stream, operation.waits_for);
  for (const Ticket& earlier : after)
    if (!done(earlier)) operation.waits_for.push_back(earlier);
  add_channel_order(stream, operation);

  const bool unobstructed = stream.queue.empty() && operation.waits_for.empty();
  const bool only_orders = std::holds_alternative<WaitWork>(operation.work);
  const bool on_host = std::holds_alternative<HostFunctionWork>(operation.work);
  const bool starts = progress_ == Progress::eager && !held_;
  const bool at_once = only_orders || (starts && !on_host);
  if (unobstructed && at_once && !lacks_value(stream, operation)) {
    perform(stream, operation);
    stream.completed = operation.sequence;
    return ticket;
  }
  enqueue(stream, std::move(operation));
  if (starts && may_run(stream)) start(stream);
  if (progress_ == Progress::timed && !held_) begin_ready();
  return ticket;
}

void Scheduler::enqueue(Stream& stream, Operation&& operation) {
  if (stream.queue.empty()) {
    stream.busy_index = busy_.size();
    busy_.push_back(&stream);
  }
  const bool waits_for_value = std::holds_alternative<WaitValueWork>(operation.work);
  if (waits_for_value) {
    ++value_waits_;
    if (progress_ == Progress::eager) value_watch_.start();
  }
  if (waits_for_value || operation.waits_for.size() > operation.in_channel)
    stream.last_wait = operation.sequence;
  stream.queue.push(std::move(operation));
}

void Scheduler::release() {
  held_ = false;
  go_on();
}

void Scheduler::go_on() {
  if (progress_ == Progress::eager)
    while (Stream* stream = any_runnable()) start(*stream);
  if (progress_ == Progress::timed) begin_ready();
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

void Scheduler::start(Stream& stream) {
  Operation& operation = stream.queue.front();
  perform(stream, operation);
  const auto* on_host = std::get_if<HostFunctionWork>(&operation.work);
  const CUresult status = state_.contexts.find(stream.context)->sticky;
  const bool called =
      on_host != nullptr && (status == CUDA_SUCCESS || on_host->callback != nullptr);
  if (!called) {
    complete_head(stream);
    return;
  }
  const Ticket ticket{stream.handle, operation.sequence};
  stream.running = true;
  if (state_.order.on()) state_.order.hosts().everybody_learns(operation.before);
  host_functions_.start(stream.handle, *on_host, status);
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
  go_on();
}

void Scheduler::perform(Stream& stream, const Operation& operation) {
  ++operations_run_;
  if (progress_ != Progress::timed) timeline_.advance_to(timeline_.now_ns() + kOperationNs);
  if (state_.log.on()) state_.log.runs(stream, operation);
  order_hash_ = (order_hash_ ^ operation.number) * 0x100000001b3;
  Context* context = state_.contexts.find(stream.context);
  BERTH_CHECK(context != nullptr);
  // A context that has faulted runs nothing more.
  if (context->sticky == CUDA_SUCCESS)
    context->sticky = sim::perform(state_, *context, stream, operation);
}

void Scheduler::complete_head(Stream& stream) {
  stream.completed = stream.queue.front().sequence;
  if (std::holds_alternative<WaitValueWork>(stream.queue.front().work)) --value_waits_;
  stream.queue.pop();
  if (waiting_ != 0) finished_.notify_all();
  if (!stream.queue.empty()) return;
  leave_busy(stream);
  if (stream.destroyed) remove(stream);
}

void Scheduler::leave_busy(Stream& stream) {
  busy_[stream.busy_index] = busy_.back();
  busy_[stream.busy_index]->busy_index = stream.busy_index;
  busy_.pop_back();
}

void Scheduler::stop() {
  value_watch_.stop();  // it may call for host functions
  host_functions_.stop();
}

void Scheduler::destroy(Stream& stream) {
  if (stream.queue.empty())
    remove(stream);
  else
    stream.destroyed = true;
}

void Scheduler::remove(Stream& stream) {
  state_.order.retire(stream.order, stream.context);
  state_.streams.erase(stream.handle);
}

}  // namespace berth::sim
