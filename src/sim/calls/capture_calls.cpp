// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Management": stream capture.
#include <cstddef>
#include <utility>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/graph/edge_data.hpp"

namespace berth::sim {
namespace {

bool is_mode(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUstreamCaptureStatus status_of(const Capture* capture) {
  if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

template <class T>
void give(T* out, T value) {
  if (out != nullptr) *out = value;
}

/// Whether a capture may begin on `stream`; null is none.
CUresult check_origin(const Stream* stream, CUstreamCaptureMode mode) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind == StreamKind::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return stream->captured.capture != 0 ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  Call call(Function::k_cuStreamBeginCapture, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  const CUresult accepted = check_origin(found, mode);
  if (accepted != CUDA_SUCCESS) return accepted;
  begin_capture(call.state(), *found, mode, this_thread().id);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                               const CUgraphNode* dependencies,
                                               const CUgraphEdgeData* edges, std::size_t count,
                                               CUstreamCaptureMode mode) {
  Call call(Function::k_cuStreamBeginCaptureToGraph, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  Stream* found = call.find_stream(stream);
  const CUresult accepted = check_origin(found, mode);
  if (accepted != CUDA_SUCCESS) return accepted;
  Graph* const into = state.graphs.find(to_handle(graph));
  if (into == nullptr || into->capture != 0) return CUDA_ERROR_INVALID_VALUE;
  if (into->parent_node != 0) return CUDA_ERROR_NOT_SUPPORTED;  // it may go with its parent
  auto nodes = read_dependencies(state, *into, dependencies, count);
  if (!nodes) return CUDA_ERROR_INVALID_VALUE;
  if (have_data(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  begin_capture(state, *found, mode, this_thread().id, into, std::move(*nodes));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* edges,
                                                     std::size_t count, unsigned flags) {
  Call call(Function::k_cuStreamUpdateCaptureDependencies, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Capture* capture = find_capture(state, found->captured);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  auto nodes = read_dependencies(state, *state.graphs.find(capture->graph), dependencies, count);
  if (!nodes) return CUDA_ERROR_INVALID_VALUE;
  if (have_data(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) found->captured.nodes.clear();
  const CapturePoint point{.capture = capture->handle, .nodes = std::move(*nodes), .edges = {}};
  join_capture(*found, point);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  Call call(Function::k_cuStreamEndCapture, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->captured.capture == 0) return CUDA_ERROR_ILLEGAL_STATE;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  const CUresult refusal = refuse_end(state, *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  const CaptureEnd end = end_capture(state, *find_capture(state, found->captured));
  if (end.unjoined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (end.graph == 0) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *graph = from_handle<CUgraph>(end.graph);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  Call call(Function::k_cuStreamIsCapturing, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_legacy(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  *status = status_of(find_capture(call.state(), found->captured));
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                          cuuint64_t* id, CUgraph* graph,
                                          const CUgraphNode** dependencies,
                                          const CUgraphEdgeData** edges, std::size_t* count) {
  Call call(Function::k_cuStreamGetCaptureInfo, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (edges != nullptr && dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_legacy(call.state(), *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  CapturePoint& point = found->captured;
  const Capture* capture = find_capture(call.state(), point);
  *status = status_of(capture);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  point.edges.assign(point.nodes.size(), CUgraphEdgeData{});
  give(id, cuuint64_t{capture->handle});
  give(graph, from_handle<CUgraph>(capture->graph));
  give<const CUgraphNode*>(dependencies, point.nodes.data());
  give<const CUgraphEdgeData*>(edges, point.edges.data());
  give(count, point.nodes.size());
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  Call call(Function::k_cuThreadExchangeStreamCaptureMode, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (mode == nullptr || !is_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  this_thread().enter(call.state().id);
  std::swap(this_thread().capture_mode, *mode);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
