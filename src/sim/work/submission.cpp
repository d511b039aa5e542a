// SPDX-License-Identifier: Apache-2.0
#include "sim/work/submission.hpp"

#include <utility>

#include "sim/graph/capture_rules.hpp"
#include "sim/state.hpp"

namespace berth::sim {

CUresult wait_for(State& state, const CallSite& call, const Awaited& awaited, Handle context) {
  {
    const DriverLock::Held held(state.driver_lock, context, call);
    const std::uint64_t begin_ns = state.scheduler.now_ns();
    state.scheduler.wait(awaited);
    state.recorder.add_host_wait(state, call, begin_ns);
  }
  state.call = call;
  const Context* waited_in = state.contexts.find(context);
  return waited_in == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : waited_in->sticky;
}

CUresult make_room(State& state, const CallSite& call, Stream*& stream) {
  const auto limit = static_cast<std::size_t>(state.config.queue_entries);
  const bool is_captured = stream->captured.capture != 0;
  if (limit == 0 || is_captured || stream->queue.size() < limit) return CUDA_SUCCESS;
  const Handle handle = stream->handle;
  const Handle context = stream->context;
  bool has_room = false;
  {
    const DriverLock::Held held(state.driver_lock, context, call);
    const std::uint64_t begin_ns = state.scheduler.now_ns();
    has_room = state.scheduler.wait_for_room(handle, limit, call);
    state.recorder.add_host_wait(state, call, begin_ns);
  }
  state.call = call;
  if (!has_room) return CUDA_ERROR_LAUNCH_TIMEOUT;
  const Context* waited_in = state.contexts.find(context);
  if (waited_in == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  stream = state.streams.find(handle);
  const bool is_destroyed = stream == nullptr || stream->destroyed;
  return is_destroyed ? CUDA_ERROR_INVALID_HANDLE : waited_in->sticky;
}

CUresult end_submission(State& state, const CallSite& call, Stream& stream) {
  if (state.launch_blocking == LaunchBlocking::none) return CUDA_SUCCESS;
  return wait_for(state, call, state.scheduler.work_of(stream), stream.context);
}

CUresult end_wait(State& state, const CallSite& call, Stream& stream) {
  const bool is_blocking = state.launch_blocking == LaunchBlocking::all;
  return is_blocking ? end_submission(state, call, stream) : CUDA_SUCCESS;
}

CUresult enqueue(State& state, const CallSite& call, Stream& stream, Work work) {
  Stream* room = &stream;
  const CUresult full = make_room(state, call, room);
  if (full != CUDA_SUCCESS) return full;
  const CUresult refusal = refuse_use(state, *room);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (room->captured.capture != 0) {
    capture_work(state, *room, std::move(work));
    return CUDA_SUCCESS;
  }
  const bool only_waits = std::holds_alternative<WaitValueWork>(work);
  state.scheduler.submit(*room, std::move(work));
  return only_waits ? end_wait(state, call, *room) : end_submission(state, call, *room);
}

}  // namespace berth::sim
