// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Management", "Stream synchronization behavior".
#include <algorithm>
#include <new>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"

namespace berth::sim {

namespace {

// A driver function throws no exception.
CUresult create(Call& call, CUstream* stream, unsigned flags, int priority) try {
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const StreamKind kind =
      flags == CU_STREAM_NON_BLOCKING ? StreamKind::non_blocking : StreamKind::blocking;
  Stream& made =
      call.state().streams.create(call.context().handle, call.context().device, kind,
                                  std::clamp(priority, kGreatestPriority, kLeastPriority));
  made.made_at = call.state().stacks.here();
  call.state().channels.assign(call.context(), made);
  *stream = from_handle<CUstream>(made.handle);
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

CUresult berth_sim_cuStreamCreate(CUstream* stream, unsigned flags) {
  Call call(Function::k_cuStreamCreate, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return create(call, stream, flags, kLeastPriority);
}

CUresult berth_sim_cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  Call call(Function::k_cuStreamCreateWithPriority, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return create(call, stream, flags, priority);
}

CUresult berth_sim_cuStreamDestroy(CUstream stream) {
  Call call(Function::k_cuStreamDestroy, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  const bool is_default = found != nullptr && (found->kind == StreamKind::legacy ||
                                               found->kind == StreamKind::per_thread);
  if (found == nullptr || is_default) return CUDA_ERROR_INVALID_HANDLE;
  leave_capture(call.state(), *found);
  call.state().scheduler.destroy(*found);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuStreamQuery(CUstream stream) {
  Call call(Function::k_cuStreamQuery, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult refusal = refuse_observation(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  const Awaited work = call.state().scheduler.work_of(*found);
  return call.sees_done(work) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult berth_sim_cuStreamSynchronize(CUstream stream) {
  Call call(Function::k_cuStreamSynchronize, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult refusal = refuse_observation(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  return call.synchronize(call.state().scheduler.work_of(*found), found->context);
}

CUresult berth_sim_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  Call call(Function::k_cuStreamWaitEvent, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  const Event* waited_for = call.state().events.find(to_handle(event));
  if (waited_for == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool external = flags == CU_EVENT_WAIT_EXTERNAL;
  const bool is_captured = found->captured.capture != 0;
  if (flags != CU_EVENT_WAIT_DEFAULT && !(external && is_captured)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal =
      external ? refuse_use(call.state(), *found) : refuse_wait(call.state(), *found, *waited_for);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (external) {
    capture_work(call.state(), *found, WaitWork{}, waited_for->handle);
    return CUDA_SUCCESS;
  }
  if (waited_for->captured.capture != 0) {
    join_capture(*found, waited_for->captured);
    return CUDA_SUCCESS;
  }
  Scheduler& scheduler = call.state().scheduler;
  call.state().order.order_after(found->order, waited_for->clock);
  if (waited_for->is_foreign()) {
    call.state().order.order_after(found->order, call.state().shared_order);
    scheduler.submit(*found, wait_for_foreign(*waited_for));
    return call.end_wait(*found);
  }
  // On the legacy stream, even a wait without dependencies orders the blocking streams.
  if (scheduler.done(waited_for->record) && found->kind != StreamKind::legacy) return CUDA_SUCCESS;
  scheduler.submit(*found, WaitWork{}, waited_for->record);
  return call.end_wait(*found);
}

CUresult berth_sim_cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  Call call(Function::k_cuLaunchHostFunc, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  return call.enqueue(*found, HostFunctionWork{.function = function, .data = data});
}

CUresult berth_sim_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                                       unsigned flags) {
  Call call(Function::k_cuStreamAddCallback, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  const CUresult refusal = refuse_unrecordable(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  call.state().scheduler.submit(
      *found, HostFunctionWork{.data = data, .callback = callback, .stream = stream});
  return call.end_submission(*found);
}

}  // namespace berth::sim
