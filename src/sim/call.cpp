// SPDX-License-Identifier: Apache-2.0
#include "sim/call.hpp"

#include "sim/fork.hpp"

namespace berth::sim {

CUresult inject_fault(State& state, const CallSite& site) {
  const std::uint64_t nth = state.calls[static_cast<std::size_t>(site.function)];
  const auto fault = state.faults.at_call(site.function, nth, site.number);
  if (!fault) return CUDA_SUCCESS;
  if (state.log.on()) state.log.note("a planned fault strikes");
  switch (fault->kind) {
    case Fault::Kind::refused:
      break;
    case Fault::Kind::slow:
      state.scheduler.spend(fault->amount);
      break;
    case Fault::Kind::less_memory:
      for (Device& device : state.devices) device.memory->set_limit(fault->amount);
      break;
    case Fault::Kind::lost:
      lose_device(state, fault->amount);
      break;
  }
  return fault->code;
}

Call::Call(Function function, Needs needs) BERTH_NO_THREAD_SAFETY_ANALYSIS
    : has_lock_(!is_parents_driver()) {
  if (!has_lock_) return;
  mutex.lock();
  refusal_ = enter(function, needs);
}

Call::~Call() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  if (!has_lock_) return;
  if (state_ != nullptr) {
    state_->scheduler.end_call();
    if (!state_->held_until.empty()) release_completed(*state_);
  }
  mutex.unlock();
  destroy_retired_computations();
}

CUresult Call::enter(Function function, Needs needs) {
  ThreadState& thread = this_thread();
  state_ = installed_state();
  if (state_ != nullptr) {
    ++state_->calls[static_cast<std::size_t>(function)];
    state_->call = site_ = thread.last_call = {function, ++state_->calls_made};
    if (state_->log.on()) state_->log.call(site_);
  }
  if (thread.in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  if (state_ == nullptr || !state_->initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (state_->order.on()) state_->order.hosts().enter_thread();
  state_->scheduler.at_call(function);
  if (state_->faults.has_rules()) {
    const CUresult fault = inject_fault(*state_, site_);
    if (fault != CUDA_SUCCESS) return fault;
  }
  if (needs == Needs::driver) return CUDA_SUCCESS;

  thread.enter(state_->id);
  if (thread.stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  await_driver_lock(thread.stack.back());
  context_ = state_->contexts.find(thread.stack.back());
  return context_ == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context_->sticky;
}

Stream* Call::find_stream(CUstream stream) {
  const Handle handle = to_handle(stream);
  const bool is_null = handle == 0;
  const bool is_own =
      stream == CU_STREAM_PER_THREAD || (is_null && this_thread().null_stream_is_per_thread);
  if (!is_own && (is_null || stream == CU_STREAM_LEGACY))
    return state_->streams.find(context_->legacy_stream);
  if (!is_own) {
    Stream* found = state_->streams.find(handle);
    const bool is_callers = found != nullptr && found->was_created();
    return is_callers ? found : nullptr;
  }
  Handle& own = context_->per_thread_streams[this_thread().id];
  Stream* existing = state_->streams.find(own);
  if (existing != nullptr) return existing;
  Stream& made =
      state_->streams.create(context_->handle, context_->device, StreamKind::per_thread, 0);
  state_->channels.assign(*context_, made);
  own = made.handle;
  return &made;
}

bool Call::sees_done(const Awaited& awaited) {
  for (const Ticket& ticket : awaited.tickets) {
    if (state_->scheduler.done(ticket)) continue;
    state_->scheduler.note_pending_query(ticket);
    return false;
  }
  if (state_->order.on()) state_->order.host_sees(awaited.clock);
  return true;
}

void Call::await_driver_lock(Handle context) {
  state_->driver_lock.await(*state_, context, site_);
  state_->call = site_;
}

CUresult Call::synchronize(const Awaited& awaited, Handle context) {
  const CUresult result = wait(awaited, context);
  synchronize_pools(*state_);
  return result;
}

}  // namespace berth::sim
