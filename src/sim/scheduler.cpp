// SPDX-License-Identifier: Apache-2.0
#include "sim/scheduler.hpp"

#include <chrono>
#include <utility>

#include "base/check.hpp"
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
    : state_(state), progress_(config.progress), random_(config.seed), host_functions_(*this) {}

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

Ticket Scheduler::submit(Stream& stream, Work work, Ticket after) {
  Operation operation{.sequence = ++stream.submitted,
                      .number = ++submissions_,
                      .waits_for = {},
                      .work = std::move(work)};
  const Ticket ticket{stream.handle, operation.sequence};
  add_default_stream_order(stream, operation.waits_for);
  if (!done(after)) operation.waits_for.push_back(after);

  const bool unobstructed = stream.queue.empty() && operation.waits_for.empty();
  const bool only_orders = std::holds_alternative<WaitWork>(operation.work);
  const bool on_host = std::holds_alternative<HostFunctionWork>(operation.work);
  const bool at_once = only_orders || (progress_ == Progress::eager && !on_host);
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
  if (progress_ == Progress::eager && may_run(stream)) start(stream);
  return ticket;
}

void Scheduler::perform(Stream& stream, Operation& operation) {
  ++operations_run_;
  now_ns_ += kOperationNs;
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
  if (stream.destroyed) state_.streams.erase(stream.handle);
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

void Scheduler::wait(std::span<const Ticket> tickets) {
  for (const Ticket& ticket : tickets) {
    while (!done(ticket)) {
      const bool wander = progress_ == Progress::random && random_.below(2) == 0;
      Stream* stream = wander ? any_runnable() : needed_by(ticket);
      if (stream != nullptr) {
        start(*stream);
        continue;
      }
      ++waiting_;
      finished_.wait(mutex);
      --waiting_;
    }
  }
}

std::vector<Ticket> Scheduler::pending_for(Stream& stream) {
  std::vector<Ticket> tickets;
  if (busy_.empty()) return tickets;
  if (!stream.queue.empty()) tickets.push_back({stream.handle, stream.submitted});
  if (stream.kind == StreamKind::legacy) add_default_stream_order(stream, tickets);
  return tickets;
}

std::vector<Ticket> Scheduler::pending_in(Handle context) {
  std::vector<Ticket> tickets;
  for (const Stream* stream : busy_)
    if (context == 0 || stream->context == context)
      tickets.push_back({stream->handle, stream->submitted});
  return tickets;
}

bool Scheduler::run_next(Stream& stream) {
  if (stream.queue.empty() || !may_run(stream)) return false;
  const Ticket next{stream.handle, stream.queue.front().sequence};
  start(stream);
  wait({&next, 1});  // a host function may still run
  return true;
}

std::size_t Scheduler::run_all() {
  const std::uint64_t before = operations_run_;
  while (!busy_.empty()) wait(pending_in(0));
  return operations_run_ - before;
}

void Scheduler::destroy(Stream& stream) {
  if (stream.queue.empty())
    state_.streams.erase(stream.handle);
  else
    stream.destroyed = true;
}

}  // namespace berth::sim
