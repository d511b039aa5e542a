// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/capture_rules.hpp"

#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// Invalidates the capture of `point`, if there is one, and returns `reason`.
CUresult invalidate(State& state, const CapturePoint& point, CUresult reason) {
  Capture* capture = find_capture(state, point);
  if (capture != nullptr) capture->invalidated = true;
  return reason;
}

bool is_blocking(const Stream& stream) {
  return stream.kind == StreamKind::blocking || stream.kind == StreamKind::per_thread;
}

/// Visits the capture points of the capturing streams of `context`.
template <class Visit>
void for_each_captured(State& state, Handle context, Visit&& visit) {
  if (state.captures.size() == 0) return;
  state.streams.for_each([&](const Stream& stream) {
    if (stream.context == context && stream.captured.capture != 0) visit(stream);
  });
}

/// The same as refuse_legacy(), but invalidates.
CUresult refuse_legacy_use(State& state, const Stream& stream) {
  const CUresult refusal = refuse_legacy(state, stream);
  if (refusal == CUDA_SUCCESS) return refusal;
  for_each_captured(state, stream.context, [&](const Stream& other) {
    if (is_blocking(other)) invalidate(state, other.captured, refusal);
  });
  return refusal;
}

bool forbids_unsafe_calls(const Capture& capture, const ThreadState& thread) {
  if (thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == thread.id) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

}  // namespace

CUresult refuse_use(State& state, const Stream& stream) {
  const Capture* capture = find_capture(state, stream.captured);
  if (capture == nullptr) return refuse_legacy_use(state, stream);
  return capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult refuse_legacy(State& state, const Stream& stream) {
  if (stream.kind != StreamKind::legacy) return CUDA_SUCCESS;
  bool conflict = false;
  for_each_captured(state, stream.context,
                    [&](const Stream& other) { conflict = conflict || is_blocking(other); });
  return conflict ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult refuse_observation(State& state, const Stream& stream) {
  if (stream.captured.capture != 0)
    return invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const CUresult refusal = refuse_legacy_use(state, stream);
  return refusal == CUDA_SUCCESS ? refuse_unsafe(state) : refusal;
}

CUresult refuse_observation(State& state, const Event& event) {
  if (event.captured.capture != 0)
    return invalidate(state, event.captured, CUDA_ERROR_CAPTURED_EVENT);
  return refuse_unsafe(state);
}

CUresult refuse_observation(State& state, const Context& context) {
  CUresult refusal = CUDA_SUCCESS;
  for_each_captured(state, context.handle, [&](const Stream& stream) {
    refusal = invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  });
  return refusal == CUDA_SUCCESS ? refuse_unsafe(state) : refusal;
}

CUresult refuse_unsafe(State& state) {
  CUresult refusal = CUDA_SUCCESS;
  state.captures.for_each([&](Capture& capture) {
    if (!forbids_unsafe_calls(capture, this_thread())) return;
    capture.invalidated = true;
    refusal = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  });
  return refusal;
}

CUresult refuse_unrecordable(State& state, const Stream& stream) {
  const CUresult refusal = refuse_use(state, stream);
  if (refusal != CUDA_SUCCESS || stream.captured.capture == 0) return refusal;
  return invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult refuse_wait(State& state, const Stream& stream, const Event& event) {
  const CUresult refusal = refuse_use(state, stream);
  if (refusal != CUDA_SUCCESS) return refusal;
  const Capture* recorded = find_capture(state, event.captured);
  const bool is_captured = stream.captured.capture != 0;
  if (event.captured.capture == 0) {
    if (!is_captured) return CUDA_SUCCESS;
    return invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (recorded == nullptr) return invalidate(state, stream.captured, CUDA_ERROR_CAPTURED_EVENT);
  if (is_captured && stream.captured.capture != recorded->handle) {
    invalidate(state, event.captured, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    return invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (recorded->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  // The legacy stream cannot take part in a capture.
  if (stream.kind == StreamKind::legacy)
    return invalidate(state, event.captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return CUDA_SUCCESS;
}

CUresult refuse_end(State& state, const Stream& stream) {
  const Capture* capture = find_capture(state, stream.captured);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.handle)
    return invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  const bool any_thread = capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!any_thread && capture->thread != this_thread().id)
    return invalidate(state, stream.captured, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
