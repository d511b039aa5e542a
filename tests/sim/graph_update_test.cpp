// SPDX-License-Identifier: Apache-2.0
// Changes of executable graphs, captures into graphs, and queries of nodes.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace graph_update_test {

using namespace berth;
using namespace berth::test;

namespace {

CUgraph fill_of(CUdeviceptr memory, unsigned char value) {
  return capture([&](CUstream stream) { OK(CU(cuMemsetD8Async)(memory, value, 16, stream)); });
}

CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo& info) {
  return CU(cuGraphExecUpdate)(exec, graph, &info);
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  std::size_t count = 0;
  OK(CU(cuGraphGetNodes)(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  OK(CU(cuGraphGetNodes)(graph, nodes.data(), &count));
  return nodes;
}

void count(void* data) {
  ++*static_cast<int*>(data);
}

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "an update of an executable graph applies to later launches") {
  const CUdeviceptr memory = make_memory(16);
  const CUgraphExec exec = make_executable(fill_of(memory, 1));
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  CUgraphExecUpdateResultInfo info{};
  const CUgraph changed = fill_of(memory, 2);
  OK(update(exec, changed, info));
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  OK(CU(cuGraphDestroy)(changed));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(memory, 16) == bytes_of(16, 1));
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(memory, 16) == bytes_of(16, 2));
}

TEST_CASE_FIXTURE(ManualFixture, "a graph of another shape is refused, and its node is named") {
  const CUdeviceptr memory = make_memory(16);
  const CUgraphExec exec = make_executable(fill_of(memory, 1));
  const CUgraph longer = capture([&](CUstream stream) {
    OK(CU(cuMemsetD8Async)(memory, 2, 16, stream));
    OK(CU(cuMemsetD8Async)(memory, 3, 16, stream));
  });
  CUgraphExecUpdateResultInfo info{};
  CHECK(update(exec, longer, info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  const char* name = nullptr;
  OK(CU(cuGetErrorName)(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, &name));
  CHECK(std::string(name) == "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE");
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK(info.errorNode == nodes_of(longer)[1]);
  const CUgraph other = capture(
      [&](CUstream stream) { OK(CU(cuMemcpyDtoDAsync)(memory, make_memory(16), 16, stream)); });
  CHECK(update(exec, other, info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  CHECK(info.errorNode == nodes_of(other)[0]);
  CHECK(update(exec, nullptr, info) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphExecUpdate)(exec, other, nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(memory, 16) == bytes_of(16, 1));
}

TEST_CASE_FIXTURE(ManualFixture, "a graph with another edge has another shape") {
  const auto make = [&](bool chained) {
    CUgraph graph = nullptr;
    CUgraphNode first = nullptr;
    CUgraphNode second = nullptr;
    OK(CU(cuGraphCreate)(&graph, 0));
    OK(CU(cuGraphAddEmptyNode)(&first, graph, nullptr, 0));
    OK(CU(cuGraphAddEmptyNode)(&second, graph, &first, chained ? 1 : 0));
    return graph;
  };
  const CUgraphExec exec = make_executable(make(false));
  const CUgraph chained = make(true);
  CUgraphExecUpdateResultInfo info{};
  CHECK(update(exec, chained, info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK(info.errorNode == nodes_of(chained)[1]);
  CHECK(info.errorFromNode == nodes_of(chained)[0]);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "user objects of replaced nodes are released after their last launch") {
  int ended = 0;
  const auto make = [&] {
    CUgraph graph = nullptr;
    CUuserObject object = nullptr;
    OK(CU(cuGraphCreate)(&graph, 0));
    OK(CU(cuUserObjectCreate)(&object, &ended, &count, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    return graph;
  };
  const CUgraphExec exec = make_executable(make());
  const CUgraph next = make();
  CUgraphExecUpdateResultInfo info{};
  OK(update(exec, next, info));
  OK(CU(cuGraphDestroy)(next));
  CHECK(sim.live().user_objects == 1);
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(sim.live().user_objects == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a stream is captured into an existing graph, after given nodes") {
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  OK(CU(cuGraphAddEmptyNode)(&first, graph, nullptr, 0));
  const CUdeviceptr memory = make_memory(16);
  const CUstream stream = make_stream();
  const auto begin = [&](CUgraph into, const CUgraphNode* behind, std::size_t nodes) {
    return CU(cuStreamBeginCaptureToGraph)(stream, into, behind, nullptr, nodes,
                                           CU_STREAM_CAPTURE_MODE_RELAXED);
  };
  CHECK(begin(nullptr, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(begin(graph, &first, 1));
  CHECK(begin(graph, &first, 1) == CUDA_ERROR_ILLEGAL_STATE);
  OK(CU(cuMemsetD8Async)(memory, 5, 16, stream));
  CHECK(CU(cuGraphDestroy)(graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(end_capture(stream) == graph);
  const std::vector<CUgraphNode> nodes = nodes_of(graph);
  REQUIRE(nodes.size() == 2);

  CUgraphNode found[2] = {};
  CUgraphEdgeData data[2] = {};
  std::size_t number = 2;
  OK(CU(cuGraphGetRootNodes)(graph, found, &number));
  CHECK(number == 1);
  CHECK(found[0] == first);
  CHECK(found[1] == nullptr);
  OK(CU(cuGraphNodeGetDependencies)(nodes[1], nullptr, nullptr, &number));
  CHECK(number == 1);
  OK(CU(cuGraphNodeGetDependencies)(nodes[1], found, data, &number));
  CHECK(found[0] == first);
  OK(CU(cuGraphNodeGetDependentNodes)(first, found, nullptr, &number));
  CHECK(found[0] == nodes[1]);
  CHECK(CU(cuGraphNodeGetDependentNodes)(first, nullptr, data, &number) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "a capture that fails leaves the graph of the program") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  const CUstream stream = make_stream();
  OK(CU(cuStreamBeginCaptureToGraph)(stream, graph, nullptr, nullptr, 0,
                                     CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(CU(cuGraphDestroy)(graph));
}

TEST_CASE_FIXTURE(ManualFixture, "the dependencies of a captured stream can be changed") {
  const CUdeviceptr memory = make_memory(16);
  const CUstream stream = make_stream();
  begin_capture(stream);
  OK(CU(cuMemsetD8Async)(memory, 1, 16, stream));
  const auto change = [&](CUgraphNode* nodes, std::size_t number, unsigned flags) {
    return CU(cuStreamUpdateCaptureDependencies)(stream, nodes, nullptr, number, flags);
  };
  OK(change(nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(CU(cuMemsetD8Async)(memory, 2, 16, stream));
  CUgraphNode first = nodes_of(captured_graph(stream))[0];
  OK(change(&first, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  CHECK(change(nullptr, 0, 2) == CUDA_ERROR_INVALID_VALUE);
  const CUgraph graph = end_capture(stream);
  std::size_t edges = 1;
  OK(CU(cuGraphGetEdges)(graph, nullptr, nullptr, nullptr, &edges));
  CHECK(edges == 0);
  CHECK(change(&first, 1, 0) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE_FIXTURE(EagerFixture, "a program adds host functions, records and waits itself") {
  int calls = 0;
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CUgraphNode nodes[3] = {};
  const CUDA_HOST_NODE_PARAMS host{.fn = &count, .userData = &calls};
  const CUevent event = make_event();
  OK(CU(cuGraphAddHostNode)(&nodes[0], graph, nullptr, 0, &host));
  OK(CU(cuGraphAddEventRecordNode)(&nodes[1], graph, &nodes[0], 1, event));
  OK(CU(cuGraphAddEventWaitNode)(&nodes[2], graph, nullptr, 0, event));
  CHECK(CU(cuGraphAddHostNode)(&nodes[0], graph, nullptr, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddEventWaitNode)(&nodes[2], graph, nullptr, 0, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  OK(CU(cuGraphNodeGetType)(nodes[2], &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  const CUgraphExec exec = make_executable(graph);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuEventSynchronize)(event));
  CHECK(calls == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph is written in Graphviz format") {
  const std::string path = "graph_update_test.dot";
  const CUgraph graph = fill_of(make_memory(16), 1);
  OK(CU(cuGraphDebugDotPrint)(graph, path.c_str(), 0));
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::remove(path.c_str());
  CHECK(text.starts_with("digraph "));
  CHECK(text.find("label=\"fill") != std::string::npos);
  CHECK(CU(cuGraphDebugDotPrint)(graph, "/no/such/folder/file", 0) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(CU(cuGraphDebugDotPrint)(nullptr, path.c_str(), 0) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace graph_update_test
