// SPDX-License-Identifier: Apache-2.0
#include "sim/work/scheduler.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/standard_error.hpp"
#include "sim/check/stream_order.hpp"
#include "sim/state.hpp"
#include "sim/work/demand.hpp"
#include "sim/work/interprocess_event.hpp"
#include "sim/work/perform.hpp"

namespace berth::sim {
namespace {

/// Long enough that only a function that is blocked still runs.
constexpr std::chrono::milliseconds kHostFunctionPatience{100};
/// The duration of an operation in simulated time.
constexpr std::uint64_t kOperationNs = 1000;
/// In random mode, the maximum number of operations at a call is one less.
constexpr std::uint64_t kBurst = 4;

/// Whether `operation` may be pending for longer than the program expects while the program makes
/// no call: in the modes in which calls run work all of it, in eager mode what waits for a value.
bool needs_watch(Progress progress, const Operation& operation) {
  return progress != Progress::eager || std::holds_alternative<WaitValueWork>(operation.work);
}

/// Whether it may block others in its channel until memory has a value.
bool holds_channel(const Work& work) {
  const auto* wait = std::get_if<WaitValueWork>(&work);
  return wait != nullptr && !wait->is_kernel;
}

}  // namespace

Scheduler::Scheduler(State& state, const Config& config, int silence_ms)
    : state_(state),
      progress_(config.progress),
      random_(config.seed),
      timeline_(config.places(), config.jitter_percent, config.seed),
      host_functions_(*this),
      value_watch_(*this),
      silence_watch_(state, *this, progress_ != Progress::manual ? silence_ms : 0) {}

bool Scheduler::done(const Ticket& ticket) {
  const Stream* stream = state_.streams.find(ticket.stream);
  return stream == nullptr || stream->completed >= ticket.sequence;
}

bool Scheduler::may_run(const Stream& stream) {
  if (stream.place == Place::none) return false;
  return stream.place == Place::ready || !lacks_value(stream, stream.queue.front());
}

const Ticket* Scheduler::obstacle_of(Operation& operation) {
  for (std::vector<Ticket>* tickets : {&operation.waits_for, &operation.in_channel})
    for (; !tickets->empty(); tickets->pop_back())
      if (!done(tickets->back())) return &tickets->back();
  return nullptr;
}

void Scheduler::place(Stream& stream) {
  if (stream.running || stream.place != Place::none || stream.queue.empty()) return;
  ++heads_examined_;
  Operation& head = stream.queue.front();
  if (const Ticket* obstacle = obstacle_of(head)) {
    state_.streams.find(obstacle->stream)->waiters.emplace(obstacle->sequence, stream.handle);
    return;
  }
  const bool is_at_value = std::holds_alternative<WaitValueWork>(head.work);
  stream.place = is_at_value ? Place::at_value : Place::ready;
  if (!is_at_value && progress_ == Progress::timed) {
    stream.ready_ns = timeline_.now_ns();
    turns_.add(stream, demand_of(state_, stream.device, head));
    return;
  }
  std::vector<Stream*>& there = is_at_value ? at_value_ : ready_;
  stream.place_index = there.size();
  there.push_back(&stream);
}

void Scheduler::leave_place(Stream& stream) {
  const Place left = std::exchange(stream.place, Place::none);
  if (left == Place::none) return;
  if (left == Place::ready && progress_ == Progress::timed) {
    turns_.remove(stream);
    return;
  }
  std::vector<Stream*>& there = left == Place::at_value ? at_value_ : ready_;
  there[stream.place_index] = there.back();
  there[stream.place_index]->place_index = stream.place_index;
  there.pop_back();
}

void Scheduler::set_priority(Stream& stream, int priority) {
  const bool has_turn = stream.place == Place::ready && progress_ == Progress::timed;
  if (has_turn) turns_.remove(stream);  // found by the old priority
  stream.priority = priority;
  if (has_turn) turns_.add(stream, demand_of(state_, stream.device, stream.queue.front()));
}

void Scheduler::wake_waiters(Stream& stream) {
  while (!stream.waiters.empty() && stream.waiters.top().first <= stream.completed) {
    Stream* const waiter = state_.streams.find(stream.waiters.top().second);
    stream.waiters.pop();
    if (waiter != nullptr) place(*waiter);
  }
}

bool Scheduler::lacks_value(const Stream& stream, const Operation& operation) {
  const auto* wait = std::get_if<WaitValueWork>(&operation.work);
  return wait != nullptr && !value_is_there(state_, *state_.contexts.find(stream.context), *wait);
}

// Source: see stream_order.hpp. Here only for pending work.
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

ChannelWaits& Scheduler::waits_beside(const Stream& stream) {
  return state_.contexts.find(stream.context)->channel_waits[*stream.channel];
}

// A channel executes work in the order of submission. Only a wait for a value can depend on later
// submissions: if no stream has one, no channel blocks progress.
void Scheduler::add_channel_order(const Stream& stream, Operation& operation) {
  const bool out_of_order = std::holds_alternative<FetchWork>(operation.work);
  const bool has_value = value_waits_ != 0 || holds_channel(operation.work);
  if (!has_value || !stream.channel || out_of_order) return;
  ChannelWaits& waits = waits_beside(stream);
  waits.drop_if([&](const Ticket& ticket) { return done(ticket); });
  for (const Ticket& ticket : waits.last())
    if (ticket.stream != stream.handle) operation.in_channel.push_back(ticket);
  operation.is_in_channel_order = true;
}

void Scheduler::note_wait(Stream& stream, const Operation& operation) {
  if (!stream.channel) return;
  ChannelWaits& waits = waits_beside(stream);
  const Ticket ticket{stream.handle, operation.sequence};
  if (operation.is_in_channel_order)
    waits.replace(ticket);
  else
    waits.add(ticket, [&](const Ticket& earlier) { return done(earlier); });
}

void Scheduler::enter_order(Stream& stream, Operation& operation) {
  join_default_streams(state_, stream);
  operation.floor = state_.order.submit(stream.order);
  operation.stamp = stream.order.latest;
  operation.before = stream.order.clock;
}

Ticket Scheduler::submit(Stream& stream, Work work, std::span<const Ticket> after) {
  if (state_.call.stack == nullptr && needs_call_site(work))
    state_.call.stack = state_.stacks.here();
  CallSite call = state_.call;
  if (const auto* kernel = std::get_if<KernelWork>(&work)) call.kernel = kernel->name;
  Operation operation{.sequence = ++stream.submitted,
                      .number = ++submissions_,
                      .waits_for = {},
                      .work = std::move(work),
                      .call = call};
  if (state_.order.on()) enter_order(stream, operation);
  const Ticket ticket{stream.handle, operation.sequence};
  add_default_stream_order(stream, operation.waits_for);
  for (const Ticket& earlier : after)
    if (!done(earlier)) operation.waits_for.push_back(earlier);
  add_channel_order(stream, operation);

  const bool unobstructed =
      stream.queue.empty() && operation.waits_for.empty() && operation.in_channel.empty();
  const bool is_wait_only = std::holds_alternative<WaitWork>(operation.work);
  const bool starts = progress_ == Progress::eager && !held_;
  const bool at_once = is_wait_only || (starts && !calls_program(operation.work));
  if (unobstructed && at_once && !lacks_value(stream, operation)) {
    perform(stream, operation);
    stream.completed = operation.sequence;
    return ticket;
  }
  enqueue(stream, std::move(operation));
  if (starts && may_run(stream) && !calls_program(stream.queue.front().work)) start(stream);
  if (progress_ == Progress::timed && !held_) begin_ready();
  return ticket;
}

void Scheduler::enqueue(Stream& stream, Operation&& operation) {
  if (stream.queue.empty()) {
    stream.busy_index = busy_.size();
    busy_.push_back(&stream);
  }
  if (needs_watch(progress_, operation)) silence_watch_.note_work();
  if (!watches_exit_ && reads_or_writes(operation.work)) {
    watches_exit_ = true;
    state_.unrun_operations.watch_exit();
  }
  const bool waits_for_value = std::holds_alternative<WaitValueWork>(operation.work);
  if (waits_for_value) {
    ++value_waits_;
    if (progress_ == Progress::eager) value_watch_.start();
  }
  if (holds_channel(operation.work) || !operation.waits_for.empty()) note_wait(stream, operation);
  const bool is_head = stream.queue.empty();
  stream.queue.push(std::move(operation));
  if (is_head) place(stream);
}

std::uint64_t Scheduler::unrun_uses() const {
  std::uint64_t count = 0;
  for (const Stream* stream : busy_)
    stream->queue.for_each(
        [&](const Operation& operation) { count += reads_or_writes(operation.work) ? 1 : 0; });
  return count;
}

void Scheduler::release() {
  held_ = false;
  if (progress_ == Progress::timed) begin_ready();
}

void Scheduler::run_eligible() {
  if (progress_ == Progress::eager)
    while (Stream* stream = any_runnable()) start(*stream);
  if (progress_ == Progress::timed) begin_ready();
}

Stream* Scheduler::any_runnable() {
  const bool by_chance = progress_ == Progress::random;
  if (!by_chance && !ready_.empty()) return ready_.front();
  open_.clear();
  for (Stream* stream : at_value_) {
    ++heads_examined_;
    if (!may_run(*stream)) continue;
    open_.push_back(stream);
    if (!by_chance) break;
  }
  const std::size_t count = ready_.size() + open_.size();
  if (count == 0) return nullptr;
  const std::size_t choice = by_chance ? random_.below(count) : 0;
  return choice < ready_.size() ? ready_[choice] : open_[choice - ready_.size()];
}

void Scheduler::run_some() {
  for (std::uint64_t left = random_.below(kBurst); left != 0; --left) {
    Stream* stream = any_runnable();
    if (stream == nullptr) return;
    start(*stream);
  }
}

void Scheduler::start(Stream& stream) {
  leave_place(stream);
  Operation& operation = stream.queue.front();
  perform(stream, operation);
  const CUresult status = state_.contexts.find(stream.context)->sticky;
  const auto* on_host = std::get_if<HostFunctionWork>(&operation.work);
  if (on_host != nullptr && (status == CUDA_SUCCESS || on_host->callback != nullptr))
    return call(stream, *on_host, status);
  if (status == CUDA_SUCCESS && calls_program(operation.work)) compute(stream);
  complete_head(stream);
}

void Scheduler::compute(Stream& stream) {
  const auto& kernel = std::get<KernelWork>(stream.queue.front().work);
  std::vector<std::vector<std::byte>> copies = copies_for(state_, kernel);
  stream.running = stream.computing = true;
  computing_.push_back(stream.handle);
  mutex.unlock();
  const std::vector<std::span<std::byte>> ranges(copies.begin(), copies.end());
  const std::optional<std::string> failure = kernel.compute(ranges);
  mutex.lock();
  std::erase(computing_, stream.handle);
  stream.running = stream.computing = false;
  ++functions_returned_;
  Context& context = *state_.contexts.find(stream.context);
  if (context.sticky != CUDA_SUCCESS) return;
  if (!failure) {
    const Operation& operation = stream.queue.front();
    context.sticky = take_back(state_, context, stream, operation, kernel, ranges);
    if (context.sticky != CUDA_SUCCESS && state_.log.on()) state_.log.faults(stream, operation);
    return;
  }
  context.sticky = CUDA_ERROR_LAUNCH_FAILED;
  write_to_stderr(format_text(
      "simulated driver: the stand-in for kernel {} failed: {}; calls of its context return "
      "CUDA_ERROR_LAUNCH_FAILED from now on\n",
      kernel.name != nullptr ? kernel.name : "without a name", on_one_line(*failure)));
}

void Scheduler::call(Stream& stream, const HostFunctionWork& work, CUresult status) {
  const Ticket ticket{stream.handle, stream.queue.front().sequence};
  stream.running = true;
  if (state_.order.on()) state_.order.hosts().learn_everywhere(stream.order.ran_closed);
  host_functions_.start(stream.handle, work, status);
  if (host_functions_.on_thread()) return;
  ++waiting_;
  const auto end = std::chrono::steady_clock::now() + kHostFunctionPatience;
  while (!done(ticket) && std::chrono::steady_clock::now() < end) finished_.wait_until(mutex, end);
  --waiting_;
}

void Scheduler::finish_host_function(Handle handle) {
  Stream* stream = state_.streams.find(handle);
  BERTH_CHECK(stream != nullptr && stream->running);
  stream->running = false;
  ++functions_returned_;
  complete_head(*stream);
  run_eligible();
}

void Scheduler::perform(Stream& stream, const Operation& operation) {
  ++operations_run_;
  if (progress_ != Progress::timed) {
    stream.began_ns = timeline_.now_ns();
    timeline_.advance_to(timeline_.now_ns() + kOperationNs);
  }
  if (state_.recorder.on()) state_.recorder.add(state_, stream, operation, stream.began_ns);
  order_hash_ = (order_hash_ ^ operation.number) * 0x100000001b3;
  Context* context = state_.contexts.find(stream.context);
  BERTH_CHECK(context != nullptr);
  // A faulted context runs no more work. Other processes do not wait for its records.
  if (context->sticky != CUDA_SUCCESS) {
    if (state_.log.on()) state_.log.is_dropped(stream, operation);
    const auto* const record = std::get_if<RecordWork>(&operation.work);
    if (record != nullptr && record->shared != nullptr) record->shared->end_record(record->number);
    return;
  }
  context->sticky = sim::perform(
      state_, *context, stream, operation,
      state_.order.on() ? state_.order.run(stream.order, operation.before, operation.floor)
                        : operation.before);
  if (!state_.log.on()) return;
  if (context->sticky == CUDA_SUCCESS)
    state_.log.runs(stream, operation);
  else
    state_.log.faults(stream, operation);
}

void Scheduler::complete_head(Stream& stream) {
  stream.completed = stream.queue.front().sequence;
  if (std::holds_alternative<WaitValueWork>(stream.queue.front().work)) --value_waits_;
  stream.queue.pop();
  if (waiting_ != 0) finished_.notify_all();
  const bool is_idle = stream.queue.empty();
  if (is_idle)
    leave_busy(stream);
  else
    place(stream);
  wake_waiters(stream);
  if (is_idle && stream.destroyed) remove(stream);
}

void Scheduler::leave_busy(Stream& stream) {
  busy_[stream.busy_index] = busy_.back();
  busy_[stream.busy_index]->busy_index = stream.busy_index;
  busy_.pop_back();
}

void Scheduler::stop() {
  value_watch_.stop();  // both may submit host functions
  silence_watch_.stop();
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
