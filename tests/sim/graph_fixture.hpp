// SPDX-License-Identifier: Apache-2.0
// Captures and graphs for tests of the simulated driver.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "sim/sim_fixture.hpp"

namespace berth::test {

inline void begin_capture(CUstream stream,
                          CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
  OK(CU(cuStreamBeginCapture)(stream, mode));
}

inline CUgraph end_capture(CUstream stream) {
  CUgraph graph = nullptr;
  OK(CU(cuStreamEndCapture)(stream, &graph));
  return graph;
}

/// The graph that the capture of `stream` records into.
inline CUgraph captured_graph(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  OK(CU(cuStreamGetCaptureInfo)(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  return graph;
}

/// Ends a capture that broke a rule.
inline CUresult fail_capture(CUstream stream) {
  CUgraph graph = reinterpret_cast<CUgraph>(stream);  // no graph, but not null
  const CUresult result = CU(cuStreamEndCapture)(stream, &graph);
  CHECK(graph == nullptr);
  return result;
}

/// What follows on `second` waits for, or is captured behind, what is on `first`.
inline void order(CUstream first, CUstream second) {
  const CUevent event = make_event();
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  OK(CU(cuEventDestroy)(event));
}

inline CUgraphExec make_executable(CUgraph graph) {
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  OK(CU(cuGraphDestroy)(graph));
  return exec;
}

/// The graph of what `body` does with a stream.
inline CUgraph capture(const std::function<void(CUstream)>& body) {
  const CUstream stream = make_stream();
  begin_capture(stream);
  body(stream);
  const CUgraph graph = end_capture(stream);
  OK(CU(cuStreamDestroy)(stream));
  return graph;
}

inline std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  std::size_t count = 0;
  OK(CU(cuGraphGetNodes)(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  if (count != 0) OK(CU(cuGraphGetNodes)(graph, nodes.data(), &count));
  return nodes;
}

inline CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  OK(CU(cuStreamIsCapturing)(stream, &status));
  return status;
}

inline void fill(CUdeviceptr memory, unsigned char value, CUstream stream) {
  OK(CU(cuMemsetD8Async)(memory, value, 1, stream));
}

/// Fills a byte with 1; in two branches with 2 and 3; then, if `joined`, with 4.
inline CUgraphExec make_diamond(CUdeviceptr memory, bool joined) {
  const CUstream left = make_stream();
  const CUstream right = make_stream();
  begin_capture(left);
  fill(memory, 1, left);
  order(left, right);
  fill(memory, 2, left);
  fill(memory, 3, right);
  order(right, left);
  if (joined) fill(memory, 4, left);
  const CUgraph graph = end_capture(left);
  OK(CU(cuStreamDestroy)(left));
  OK(CU(cuStreamDestroy)(right));
  return make_executable(graph);
}

/// A graph that fills one byte.
inline CUgraphExec make_fill(CUdeviceptr memory, unsigned char value) {
  return make_executable(capture([&](CUstream stream) { fill(memory, value, stream); }));
}

}  // namespace berth::test
