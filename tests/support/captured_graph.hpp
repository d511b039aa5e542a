// SPDX-License-Identifier: Apache-2.0
// Captures and their graphs, for tests that hold streams of a Runtime on the simulated driver.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <utility>

#include <doctest/doctest.h>

#include "berth/current_stream.hpp"

#include "sim/functions.hpp"

namespace berth::test {

inline void begin_capture(StreamRef stream,
                          CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
  const StreamGuard guard(stream);
  REQUIRE(sim::berth_sim_cuStreamBeginCapture(stream.native(), mode) == CUDA_SUCCESS);
}

inline CUstreamCaptureStatus capture_status(StreamRef stream) {
  const StreamGuard guard(stream);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  REQUIRE(sim::berth_sim_cuStreamIsCapturing(stream.native(), &status) == CUDA_SUCCESS);
  return status;
}

/// Ends a capture that broke a rule. Returns the driver's result.
inline CUresult fail_capture(StreamRef stream) {
  const StreamGuard guard(stream);
  CUgraph graph = nullptr;
  const CUresult result = sim::berth_sim_cuStreamEndCapture(stream.native(), &graph);
  CHECK(graph == nullptr);
  return result;
}

/// The captured work of a stream, ready to run again.
class CapturedGraph {
 public:
  /// Ends the capture, which must be valid.
  explicit CapturedGraph(StreamRef stream) : stream_(stream) {
    const StreamGuard guard(stream);
    CUgraph graph = nullptr;
    REQUIRE(sim::berth_sim_cuStreamEndCapture(stream.native(), &graph) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuGraphGetNodes(graph, nullptr, &nodes_) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuGraphInstantiateWithFlags(&exec_, graph, 0) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
  }
  ~CapturedGraph() {
    const StreamGuard guard(stream_);
    CHECK(sim::berth_sim_cuGraphExecDestroy(exec_) == CUDA_SUCCESS);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Launches it on the stream on which it was captured.
  void launch() const {
    const StreamGuard guard(stream_);
    REQUIRE(sim::berth_sim_cuGraphLaunch(exec_, stream_.native()) == CUDA_SUCCESS);
  }
  [[nodiscard]] std::size_t nodes() const { return nodes_; }

 private:
  StreamRef stream_;
  CUgraphExec exec_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace berth::test
