// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Runtime API, "Stream Management": stream capture.
#include "cudart/call.hpp"
#include "cudart/functions.hpp"

namespace berth::cudart {
namespace {

/// The driver's query, without the results that the runtime's functions lack.
cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph,
                         const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         std::size_t* count) {
  return call(Needs::context, [&](const Driver& driver) {
    cuuint64_t capture = 0;
    const CUresult result =
        driver.cuStreamGetCaptureInfo(stream, same<CUstreamCaptureStatus*>(status), &capture, graph,
                                      dependencies, same<const CUgraphEdgeData**>(edges), count);
    if (result == CUDA_SUCCESS && id != nullptr) *id = capture;
    return result;
  });
}

}  // namespace

cudaError_t berth_cudart_cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return forward(Needs::context, &Driver::cuStreamBeginCapture, stream,
                 static_cast<CUstreamCaptureMode>(mode));
}

cudaError_t berth_cudart_cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                       const cudaGraphNode_t* dependencies,
                                                       const cudaGraphEdgeData* edges,
                                                       std::size_t count,
                                                       cudaStreamCaptureMode mode) {
  return forward(Needs::context, &Driver::cuStreamBeginCaptureToGraph, stream, graph, dependencies,
                 same<const CUgraphEdgeData*>(edges), count,
                 static_cast<CUstreamCaptureMode>(mode));
}

cudaError_t berth_cudart_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return forward(Needs::context, &Driver::cuStreamEndCapture, stream, graph);
}

cudaError_t berth_cudart_cudaStreamIsCapturing(cudaStream_t stream,
                                               cudaStreamCaptureStatus* status) {
  return forward(Needs::context, &Driver::cuStreamIsCapturing, stream,
                 same<CUstreamCaptureStatus*>(status));
}

cudaError_t berth_cudart_cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                  cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** dependencies,
                                                  const cudaGraphEdgeData** edges,
                                                  std::size_t* count) {
  return capture_info(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t berth_cudart_12_cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                                        cudaStreamCaptureStatus* status,
                                                        unsigned long long* id, cudaGraph_t* graph,
                                                        const cudaGraphNode_t** dependencies,
                                                        std::size_t* count) {
  return capture_info(stream, status, id, graph, dependencies, nullptr, count);
}

cudaError_t berth_cudart_12_cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                     cudaStreamCaptureStatus* status,
                                                     unsigned long long* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t berth_cudart_cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                             cudaGraphNode_t* nodes,
                                                             const cudaGraphEdgeData* edges,
                                                             std::size_t count, unsigned flags) {
  return forward(Needs::context, &Driver::cuStreamUpdateCaptureDependencies, stream, nodes,
                 same<const CUgraphEdgeData*>(edges), count, flags);
}

cudaError_t berth_cudart_12_cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                                cudaGraphNode_t* nodes,
                                                                std::size_t count, unsigned flags) {
  return berth_cudart_cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
}

cudaError_t berth_cudart_cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return forward(Needs::driver, &Driver::cuThreadExchangeStreamCaptureMode,
                 same<CUstreamCaptureMode*>(mode));
}

}  // namespace berth::cudart
