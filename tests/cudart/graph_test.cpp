// SPDX-License-Identifier: Apache-2.0
#include "cudart/cudart_fixture.hpp"

namespace cudart_graph_test {

using namespace berth::test;

#if BERTH_CUDART_MAJOR == 12
extern "C" {
berth::cudart::older_abi::StreamGetCaptureInfo10 info_10 __asm__("cudaStreamGetCaptureInfo");
berth::cudart::older_abi::StreamGetCaptureInfo12 info_12 __asm__("cudaStreamGetCaptureInfo_v2");
decltype(cudaStreamGetCaptureInfo) info __asm__("cudaStreamGetCaptureInfo_v3");
}
#else
constexpr auto info = cudaStreamGetCaptureInfo;
#endif

/// A graph that fills `memory` with 1 and copies it to `host`.
cudaGraph_t capture(cudaStream_t stream, unsigned char* memory, unsigned char* host) {
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemsetAsync(memory, 1, 64, stream));
  OK(cudaMemcpyAsync(host, memory, 64, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

TEST_CASE_FIXTURE(EagerRuntime, "work of a capture runs when its graph is launched, each time") {
  const cudaStream_t stream = make_stream();
  unsigned char* const memory = make_memory(64);
  unsigned char* const host = make_pinned(64);
  host[0] = 0;
  const cudaGraph_t graph = capture(stream, memory, host);
  CHECK(host[0] == 0);
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    host[0] = 0;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(host[0] == 1);
  }
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  CHECK(sim.live().graphs == 0);
}

TEST_CASE_FIXTURE(EagerRuntime, "the nodes of a graph are counted, listed and have types") {
  const cudaStream_t stream = make_stream();
  const cudaGraph_t graph = capture(stream, make_memory(64), make_pinned(64));
  std::size_t count = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  REQUIRE(count == 2);
  cudaGraphNode_t nodes[2] = {};
  OK(cudaGraphGetNodes(graph, nodes, &count));
  cudaGraphNodeType type{};
  OK(cudaGraphNodeGetType(nodes[0], &type));
  CHECK(type == cudaGraphNodeTypeMemset);
  OK(cudaGraphNodeGetType(nodes[1], &type));
  CHECK(type == cudaGraphNodeTypeMemcpy);
  cudaGraph_t copy = nullptr;
  cudaGraphNode_t found = nullptr;
  OK(cudaGraphClone(&copy, graph));
  OK(cudaGraphNodeFindInClone(&found, nodes[1], copy));
  OK(cudaGraphNodeGetType(found, &type));
  CHECK(type == cudaGraphNodeTypeMemcpy);
  cudaGraph_t parent = nullptr;
  cudaGraphNode_t empty = nullptr;
  cudaGraphNode_t child = nullptr;
  OK(cudaGraphCreate(&parent, 0));
  OK(cudaGraphAddEmptyNode(&empty, parent, nullptr, 0));
  OK(cudaGraphAddChildGraphNode(&child, parent, &empty, 1, graph));
  cudaGraph_t inner = nullptr;
  OK(cudaGraphChildGraphNodeGetGraph(child, &inner));
  OK(cudaGraphGetNodes(inner, nullptr, &count));
  CHECK(count == 2);
  OK(cudaGraphDestroy(parent));
  OK(cudaGraphDestroy(graph));
}

TEST_CASE_FIXTURE(EagerRuntime, "the status and dependencies of a capture can be queried") {
  const cudaStream_t stream = make_stream();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  OK(cudaStreamIsCapturing(stream, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  unsigned char* const memory = make_memory(64);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaMemsetAsync(memory, 1, 64, stream));
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  OK(info(stream, &status, &id, &graph, &dependencies, &edges, &count));
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(id != 0);
  CHECK(graph != nullptr);
  CHECK(count == 1);
#if BERTH_CUDART_MAJOR == 12
  unsigned long long other = 0;
  OK(info_10(stream, &status, &other));
  CHECK(other == id);
  std::size_t other_count = 0;
  OK(info_12(stream, &status, &other, &graph, &dependencies, &other_count));
  CHECK(other_count == 1);
#endif
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphDestroy(graph));
}

TEST_CASE_FIXTURE(EagerRuntime, "a call that is not allowed in a capture invalidates it") {
  const cudaStream_t stream = make_stream();
  cudaGraph_t graph = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE_FIXTURE(EagerRuntime, "the capture mode of a thread is exchanged") {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
}

TEST_CASE_FIXTURE(EagerRuntime, "a graph owns the user objects that it retains") {
  static int destroyed = 0;
  destroyed = 0;
  cudaGraph_t graph = nullptr;
  cudaUserObject_t object = nullptr;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaUserObjectCreate(
      &object, &destroyed, [](void* data) { ++*static_cast<int*>(data); }, 1,
      cudaUserObjectNoDestructorSync));
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  CHECK(sim.live().user_objects == 1);
  OK(cudaGraphDestroy(graph));
  CHECK(sim.live().user_objects == 0);
}

}  // namespace cudart_graph_test
