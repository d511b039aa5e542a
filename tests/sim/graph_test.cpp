// SPDX-License-Identifier: Apache-2.0
// The contents and lifetime of graphs, and arguments that are refused.
#include <sys/mman.h>

#include "sim/graph_fixture.hpp"

namespace graph_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(ManualFixture, "a graph and its executable graph have independent lifetimes") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph graph = capture([&](CUstream stream) { fill(memory, 5, stream); });
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  CHECK(sim.live().graphs == 1);
  CHECK(sim.live().graph_execs == 1);
  OK(CU(cuGraphDestroy)(graph));
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuStreamDestroy)(stream));
  CHECK(sim.live().graphs == 0);
  CHECK(sim.live().graph_execs == 0);
  CHECK(sim.live().streams == 0);
  CHECK(sim.live().streams_draining == 1);  // the chain is no stream of the caller's
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(memory, 1) == bytes_of(1, 5));
  CHECK(sim.live().streams_draining == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "existing graphs are listed") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph graph = capture([&](CUstream stream) { fill(memory, 5, stream); });
  const CUgraphExec exec = make_fill(memory, 1);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  begin_capture(make_stream());
  std::string list;
  for (const std::string& line : sim.live_list()) list += line + "\n";
  for (const char* part : {"capture that began on stream", ", 1 nodes", "executable graph",
                           "part of a graph or batch on stream"})
    CHECK_MESSAGE(list.find(part) != std::string::npos, part);
  CHECK(nodes_of(graph).size() == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "the graph of a capture in progress belongs to the capture") {
  const CUstream stream = make_stream();
  begin_capture(stream);
  const CUgraph graph = captured_graph(stream);
  CUgraphExec exec = nullptr;
  CHECK(CU(cuGraphDestroy)(graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(end_capture(stream) == graph);
  CHECK(CU(cuGraphDestroy)(graph) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a launch cannot be captured") {
  const CUgraphExec exec = make_fill(make_memory(1), 1);
  const CUstream stream = make_stream();
  begin_capture(stream);
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph with a destroyed event or context does not start") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  const CUevent recorded = make_event();
  const CUevent awaited = make_event();
  const CUgraphExec records = make_executable(capture([&](CUstream captured) {
    fill(memory, 1, captured);
    OK(CU(cuEventRecordWithFlags)(recorded, captured, CU_EVENT_RECORD_EXTERNAL));
  }));
  const CUgraphExec waits = make_executable(capture([&](CUstream captured) {
    fill(memory, 1, captured);
    OK(CU(cuStreamWaitEvent)(captured, awaited, CU_EVENT_WAIT_EXTERNAL));
  }));
  OK(CU(cuEventDestroy)(recorded));
  OK(CU(cuEventDestroy)(awaited));
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(second));
  const CUgraphExec elsewhere = make_fill(make_memory(1), 1);
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  CHECK(found_leak(sim, "1 allocation of 1 B"));
  for (const CUgraphExec exec : {records, waits, elsewhere})
    CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.pending_operations(stream) == 0);
  CHECK(sim.run_all() == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a graph that uses freed device memory faults when it runs") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_fill(memory, 1);
  OK(CU(cuMemFree)(memory));
  const CUstream stream = make_stream();
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_SUCCESS);
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("a graph that uses unmapped pageable memory faults when it runs") {
  for (const bool reads : {true, false}) {
    CAPTURE(reads);
    const ManualFixture fixture;
    void* const page =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    const CUdeviceptr memory = make_memory(64);
    const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
      const CUdeviceptr host = address_of(static_cast<unsigned char*>(page));
      OK(reads ? CU(cuMemcpyAsync)(memory, host, 64, stream)
               : CU(cuMemcpyAsync)(host, memory, 64, stream));
    }));
    const CUstream stream = make_stream();
    OK(CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuGraphLaunch)(exec, stream));
    REQUIRE(munmap(page, 4096) == 0);
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

TEST_CASE_FIXTURE(ManualFixture, "destroying a context waits for running graphs") {
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(second));
  unsigned char* there = make_pinned(1);
  const CUgraphExec exec = make_fill(address_of(there), 7);
  OK(CU(cuCtxPopCurrent)(nullptr));
  const CUstream stream = make_stream();
  unsigned char* here = make_pinned(1);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuMemcpyAsync)(address_of(here), address_of(there), 1, stream));
  CHECK(*here == 7);
  OK(CU(cuGraphLaunch)(exec, stream));
  CHECK(sim.pending_operations(stream) == 1);
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  CHECK(found_leak(sim, "1 pinned host allocation"));
  CHECK(sim.run_next(stream));  // only its end was left
  CHECK_FALSE(sim.run_next(stream));
}

TEST_CASE_FIXTURE(ManualFixture, "empty nodes establish order") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CUgraphNode nodes[3] = {};
  OK(CU(cuGraphAddEmptyNode)(&nodes[0], graph, nullptr, 0));
  OK(CU(cuGraphAddEmptyNode)(&nodes[1], graph, nullptr, 0));
  OK(CU(cuGraphAddEmptyNode)(&nodes[2], graph, nodes, 2));
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  OK(CU(cuGraphNodeGetType)(nodes[2], &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_EMPTY);
  const CUgraphExec exec = make_executable(graph);
  const CUdeviceptr memory = make_memory(1);
  const CUstream stream = make_stream();
  fill(memory, 1, stream);
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 1));
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a list of nodes or edges is truncated or padded to the caller's length") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CUgraphNode nodes[3] = {};
  for (std::size_t i = 0; i < 3; ++i) OK(CU(cuGraphAddEmptyNode)(&nodes[i], graph, nodes, i));
  CUgraphNode listed[4] = {nodes[2], nodes[0], nodes[0], nodes[0]};
  std::size_t count = 1;
  OK(CU(cuGraphGetNodes)(graph, listed, &count));
  CHECK(count == 1);
  CHECK(listed[0] == nodes[0]);
  CHECK(listed[1] == nodes[0]);
  count = 4;
  OK(CU(cuGraphGetNodes)(graph, listed, &count));
  CHECK(count == 3);
  CHECK(listed[2] == nodes[2]);
  CHECK(listed[3] == nullptr);
  CUgraphNode from[4] = {};
  CUgraphNode to[4] = {nodes[0], nodes[0], nodes[0], nodes[0]};
  CUgraphEdgeData data[4];
  count = 4;
  OK(CU(cuGraphGetEdges)(graph, from, to, data, &count));
  CHECK(count == 3);
  CHECK(from[2] == nodes[1]);
  CHECK(to[2] == nodes[2]);
  CHECK(to[3] == nullptr);
  CHECK(data[2].type == 0);
  count = 1;
  OK(CU(cuGraphGetEdges)(graph, from, to, nullptr, &count));
  CHECK(count == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "graph calls refuse invalid arguments") {
  CUgraph graph = nullptr;
  CUgraph other = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  OK(CU(cuGraphCreate)(&other, 0));
  CUgraphNode node = nullptr;
  CUgraphNode foreign = nullptr;
  OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
  OK(CU(cuGraphAddEmptyNode)(&foreign, other, nullptr, 0));
  CUgraphExec exec = nullptr;
  std::size_t count = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  const auto* nowhere = reinterpret_cast<const CUgraphNode*>(16);
  const auto refused = [](CUresult result) { return result == CUDA_ERROR_INVALID_VALUE; };

  CHECK(refused(CU(cuGraphCreate)(nullptr, 0)));
  CHECK(refused(CU(cuGraphCreate)(&graph, 1)));
  CHECK(refused(CU(cuGraphAddEmptyNode)(nullptr, graph, nullptr, 0)));
  CHECK(refused(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 1)));
  CHECK(refused(CU(cuGraphAddEmptyNode)(&node, graph, nowhere, ~std::size_t{0})));
  CHECK(refused(CU(cuGraphAddEmptyNode)(&node, graph, &foreign, 1)));
  CHECK(refused(CU(cuGraphGetNodes)(graph, nullptr, nullptr)));
  CHECK(refused(CU(cuGraphGetEdges)(graph, nullptr, nullptr, nullptr, nullptr)));
  CHECK(refused(CU(cuGraphGetEdges)(graph, &node, nullptr, nullptr, &count)));
  CHECK(refused(CU(cuGraphNodeGetType)(node, nullptr)));
  CHECK(refused(CU(cuGraphInstantiateWithFlags)(nullptr, graph, 0)));
  CHECK(refused(CU(cuGraphInstantiateWithFlags)(&exec, graph, 16)));
  CHECK(refused(CU(cuGraphInstantiateWithFlags)(&exec, graph, ~0ULL)));
  CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuGraphInstantiateWithFlags)(
            &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) == CUDA_SUCCESS);
  CHECK(CU(cuGraphLaunch)(exec, reinterpret_cast<CUstream>(&exec)) == CUDA_ERROR_INVALID_HANDLE);

  OK(CU(cuGraphDestroy)(other));
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(refused(CU(cuGraphExecDestroy)(exec)));
  CHECK(refused(CU(cuGraphLaunch)(exec, nullptr)));
  CHECK(refused(CU(cuGraphNodeGetType)(foreign, &type)));
  for (const CUgraph bad : {CUgraph{nullptr}, other, reinterpret_cast<CUgraph>(node)}) {
    CHECK(refused(CU(cuGraphDestroy)(bad)));
    CHECK(refused(CU(cuGraphGetNodes)(bad, nullptr, &count)));
    CHECK(refused(CU(cuGraphGetEdges)(bad, nullptr, nullptr, nullptr, &count)));
    CHECK(refused(CU(cuGraphAddEmptyNode)(&node, bad, nullptr, 0)));
    CHECK(refused(CU(cuGraphInstantiateWithFlags)(&exec, bad, 0)));
  }
}

}  // namespace graph_test
