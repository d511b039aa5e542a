// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Event Management".
#include <memory>
#include <utility>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {

CUresult berth_sim_cuEventCreate(CUevent* event, unsigned flags) {
  constexpr unsigned known =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  Call call(Function::k_cuEventCreate, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (event == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<InterprocessEvent> shared;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    const auto slot = static_cast<std::size_t>(call.context().device);
    shared = InterprocessEvent::create(call.state().devices[slot].facts.uuid);
    if (shared == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Event& made = call.state().events.create(call.context().handle, flags);
  made.shared = std::move(shared);
  made.made_at = call.state().stacks.here();
  *event = from_handle<CUevent>(made.handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuEventDestroy(CUevent event) {
  Call call(Function::k_cuEventDestroy, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().events.find(to_handle(event)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  call.state().events.erase(to_handle(event));
  return CUDA_SUCCESS;
}

namespace {

CUresult record(Call& call, CUevent event, CUstream stream, unsigned flags) BERTH_REQUIRES(mutex) {
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  Event* recorded = call.state().events.find(to_handle(event));
  if (recorded == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (recorded->context != found->context) return CUDA_ERROR_INVALID_HANDLE;
  const bool external = flags == CU_EVENT_RECORD_EXTERNAL;
  const bool is_captured = found->captured.capture != 0;
  if (flags != CU_EVENT_RECORD_DEFAULT && !(external && is_captured))
    return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult refusal = refuse_use(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (external) return call.enqueue(*found, RecordWork{recorded->handle});
  recorded->captured = found->captured;
  if (is_captured) return CUDA_SUCCESS;
  recorded->record = Scheduler::next_ticket(*found);
  const Handle handle = recorded->handle;
  call.state().scheduler.submit(*found, begin_record(*recorded));
  if (Event* const made = call.state().events.find(handle))
    note_record(call.state(), *made, found->order.clock);
  return call.end_wait(*found);
}

/// Waits for the latest record, which is one of another process.
CUresult wait_for_foreign_record(Call& call, const Event& event) BERTH_REQUIRES(mutex) {
  State& state = call.state();
  const Handle context = event.context;
  const Context& owner = *state.contexts.find(context);
  Stream& waits = open_hidden_stream(state, owner, *state.streams.find(owner.legacy_stream));
  waits.channel.reset();
  const Submitted submitted =
      submit_behind(state, waits, wait_for_foreign(event), {{{}, {}, state.shared_order}});
  state.scheduler.destroy(waits);
  return call.synchronize({{submitted.ticket}, submitted.clock}, context);
}

/// Looks up an event, and enters its context. Null if the handle is invalid.
const Event* find_event(Call& call, CUevent event) BERTH_REQUIRES(mutex) {
  const Event* found = call.state().events.find(to_handle(event));
  if (found == nullptr) return nullptr;
  call.await_driver_lock(found->context);
  return call.state().events.find(to_handle(event));
}

}  // namespace

CUresult berth_sim_cuEventRecord(CUevent event, CUstream stream) {
  Call call(Function::k_cuEventRecord, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return record(call, event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult berth_sim_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  Call call(Function::k_cuEventRecordWithFlags, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return record(call, event, stream, flags);
}

CUresult berth_sim_cuEventQuery(CUevent event) {
  Call call(Function::k_cuEventQuery, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Event* found = find_event(call, event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult fault = call.state().contexts.find(found->context)->sticky;
  if (fault != CUDA_SUCCESS) return fault;
  const CUresult refusal = refuse_observation(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (found->is_foreign()) {
    const bool is_done = found->shared->done() >= found->shared->recorded();
    if (is_done) call.state().order.host_sees(call.state().shared_order);
    return is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  return call.sees_done(found->awaited()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult berth_sim_cuEventSynchronize(CUevent event) {
  Call call(Function::k_cuEventSynchronize, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Event* found = find_event(call, event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult fault = call.state().contexts.find(found->context)->sticky;
  if (fault != CUDA_SUCCESS) return fault;
  const CUresult refusal = refuse_observation(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  return found->is_foreign() ? wait_for_foreign_record(call, *found)
                             : call.synchronize(found->awaited(), found->context);
}

CUresult berth_sim_cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  Call call(Function::k_cuEventElapsedTime, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Event* from = call.state().events.find(to_handle(start));
  const Event* to = call.state().events.find(to_handle(end));
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (from->context != to->context || !from->timed() || !to->timed())
    return CUDA_ERROR_INVALID_HANDLE;
  for (const Event* event : {from, to})
    if (event->captured.capture != 0) return refuse_observation(call.state(), *event);
  if (!from->recorded() || !to->recorded()) return CUDA_ERROR_INVALID_HANDLE;
  Scheduler& scheduler = call.state().scheduler;
  if (!scheduler.done(from->record) || !scheduler.done(to->record)) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(
      (static_cast<double>(to->time_ns) - static_cast<double>(from->time_ns)) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
