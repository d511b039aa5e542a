// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Graph Management".
#include "contract/graph_contract.hpp"

#include <algorithm>
#include <atomic>

namespace graph_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Two regions, the second a copy of the first as a graph makes it.
struct CopyGraph {
  explicit CopyGraph(const GraphContractFixture& fixture_) : fixture(fixture_) {
    const CUstream stream = fixture.make_stream();
    fixture.begin(stream);
    fixture.driver.memcpy_async(to, from, kBytes, stream);
    exec = fixture.make_executable(fixture.end(stream));
    fixture.driver.stream_destroy(stream);
  }
  ~CopyGraph() {
    fixture.driver.try_graph_exec_destroy(exec);
    fixture.driver.try_ctx_synchronize();
    fixture.driver.try_mem_free(from);
    fixture.driver.try_mem_free(to);
  }
  CopyGraph(const CopyGraph&) = delete;
  CopyGraph& operator=(const CopyGraph&) = delete;

  static constexpr std::size_t kBytes = 64;
  const GraphContractFixture& fixture;
  CUdeviceptr from = fixture.make_memory(kBytes);
  CUdeviceptr to = fixture.make_memory(kBytes);
  CUgraphExec exec = nullptr;
};

}  // namespace

// cuGraphCreate: "Creates an empty graph"; flags "must be 0".
TEST_CASE_FIXTURE(GraphContractFixture, "an empty graph is made, launched and destroyed") {
  if (!available) return;
  CUgraph graph = nullptr;
  CHECK(driver.try_graph_create(&graph, 1U) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(driver.try_graph_create(&graph, 0U) == CUDA_SUCCESS);
  CHECK(nodes(graph).empty());
  const CUstream stream = make_stream();
  const CUgraphExec exec = make_executable(graph);
  CHECK(driver.try_graph_launch(exec, stream) == CUDA_SUCCESS);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
  CHECK(driver.try_graph_exec_destroy(exec) == CUDA_SUCCESS);
  driver.stream_destroy(stream);
}

// cuGraphGetNodes: "If numNodes is higher than the actual number of nodes, the remaining entries in
// nodes will be set to NULL, and the number of nodes actually obtained will be returned".
TEST_CASE_FIXTURE(GraphContractFixture, "a graph lists its nodes and edges") {
  if (!available) return;
  CUgraph graph = nullptr;
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  driver.graph_create(&graph, 0U);
  driver.graph_add_empty_node(&first, graph, nullptr, std::size_t{0});
  driver.graph_add_empty_node(&second, graph, &first, std::size_t{1});
  CUgraphNode listed[3] = {first, first, first};
  std::size_t count = 3;
  driver.graph_get_nodes(graph, listed, &count);
  CHECK(count == 2);
  CHECK(listed[2] == nullptr);
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  count = 1;
  driver.graph_get_edges(graph, &from, &to, nullptr, &count);
  CHECK(count == 1);
  CHECK(from == first);
  CHECK(to == second);
  driver.graph_destroy(graph);
}

// cuGraphNodeGetType; "When a stream is in capture mode, all operations pushed into the stream
// [...] will [...] be captured".
TEST_CASE_FIXTURE(GraphContractFixture, "each kind of captured work has its kind of node") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin(stream);
  driver.memcpy_async(memory, memory + 32, std::size_t{32}, stream);
  fill(memory, 1, 64, stream);
  driver.launch_host_func(
      stream, [](void*) {}, nullptr);
  const CUgraph graph = end(stream);
  std::vector<int> types;
  for (const CUgraphNode node : nodes(graph)) types.push_back(type(node));
  CHECK(types == std::vector<int>{CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                  CU_GRAPH_NODE_TYPE_HOST});
  driver.graph_destroy(graph);
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuGraphLaunch: "Each launch is ordered behind both any previous work in hStream and any previous
// launches of hGraphExec."
TEST_CASE_FIXTURE(GraphContractFixture, "a launch is in the order of its stream") {
  if (!available) return;
  const CopyGraph graph(*this);
  const CUstream stream = make_stream();
  Gate gate(driver, stream);
  fill(graph.from, 7, CopyGraph::kBytes, stream);
  driver.graph_launch(graph.exec, stream);
  fill(graph.from, 8, CopyGraph::kBytes, stream);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(read(graph.to, CopyGraph::kBytes, stream) == bytes_of(CopyGraph::kBytes, 7));
  driver.graph_launch(graph.exec, stream);
  CHECK(read(graph.to, CopyGraph::kBytes, stream) == bytes_of(CopyGraph::kBytes, 8));
  driver.stream_destroy(stream);
}

// The same: "Only one instance of hGraphExec may be executing at a time."
TEST_CASE_FIXTURE(GraphContractFixture, "launches of one executable graph are in order") {
  if (!available) return;
  const CopyGraph graph(*this);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  Gate gate(driver, first);
  driver.graph_launch(graph.exec, first);
  driver.graph_launch(graph.exec, second);
  CHECK(driver.try_stream_query(second) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(second) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(first) == CUDA_SUCCESS);
  driver.stream_destroy(first);
  driver.stream_destroy(second);
}

// cuEventRecord: "the contents of hStream at the time of this call".
TEST_CASE_FIXTURE(GraphContractFixture, "an event recorded after a launch marks the whole launch") {
  if (!available) return;
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr memory = make_memory(64);
  std::atomic<bool> open{false};
  begin(origin);
  order(origin, fork);
  driver.launch_host_func(
      fork,
      [](void* opened) {
        while (!*static_cast<std::atomic<bool>*>(opened))
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      &open);
  fill(memory, 1, 64, origin);
  order(fork, origin);
  const CUgraphExec exec = make_executable(end(origin));
  driver.graph_launch(exec, origin);
  driver.event_record(event, origin);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  open = true;
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(origin) == CUDA_SUCCESS);
  driver.graph_exec_destroy(exec);
  driver.mem_free(memory);
  driver.event_destroy(event);
  driver.stream_destroy(origin);
  driver.stream_destroy(fork);
}

// cuGraphInstantiate "Instantiates hGraph as an executable graph": the one does not need the other.
TEST_CASE_FIXTURE(GraphContractFixture, "an executable graph is a copy of its graph") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin(stream);
  fill(memory, 5, 64, stream);
  const CUgraph graph = end(stream);
  CUgraphExec execs[2] = {};
  for (CUgraphExec& exec : execs) driver.graph_instantiate(&exec, graph, 0ULL);
  CHECK(execs[0] != execs[1]);
  driver.graph_destroy(graph);
  for (const CUgraphExec exec : execs) {
    fill(memory, 1, 64, stream);
    driver.graph_launch(exec, stream);
    CHECK(read(memory, 64, stream) == bytes_of(64, 5));
    driver.graph_exec_destroy(exec);
  }
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuGraphExecDestroy: "If the executable graph is in-flight, it will not be terminated, but rather
// freed asynchronously on completion."
TEST_CASE_FIXTURE(GraphContractFixture, "work of a destroyed executable graph still completes") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin(stream);
  fill(memory, 5, 64, stream);
  const CUgraphExec exec = make_executable(end(stream));
  Gate gate(driver, stream);
  driver.graph_launch(exec, stream);
  CHECK(driver.try_graph_exec_destroy(exec) == CUDA_SUCCESS);
  gate.open();
  CHECK(read(memory, 64, stream) == bytes_of(64, 5));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuLaunchHostFunc, captured.
TEST_CASE_FIXTURE(GraphContractFixture, "a captured host function runs once a launch") {
  if (!available) return;
  const CUstream stream = make_stream();
  std::atomic<int> calls{0};
  begin(stream);
  driver.launch_host_func(
      stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls);
  const CUgraphExec exec = make_executable(end(stream));
  for (int launch = 1; launch <= 3; ++launch) {
    driver.graph_launch(exec, stream);
    driver.stream_synchronize(stream);
    CHECK(calls == launch);
  }
  driver.graph_exec_destroy(exec);
  driver.stream_destroy(stream);
}

// A node is the operation, not its data: host memory is read, and written, by each launch.
TEST_CASE_FIXTURE(GraphContractFixture, "a captured copy uses host memory as it is at the launch") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  unsigned char* pinned = make_pinned(64);
  std::vector<unsigned char> pageable(64);
  for (unsigned char* host : {pinned, pageable.data()}) {
    std::vector<unsigned char> result(64);
    begin(stream);
    driver.memcpy_async(memory, address_of(host), std::size_t{64}, stream);
    driver.memcpy_async(address_of(result.data()), memory, std::size_t{64}, stream);
    const CUgraphExec exec = make_executable(end(stream));
    for (unsigned char value = 3; value < 5; ++value) {
      std::fill_n(host, 64, value);
      driver.graph_launch(exec, stream);
      driver.stream_synchronize(stream);
      CHECK(result == bytes_of(64, value));
    }
    driver.graph_exec_destroy(exec);
  }
  driver.mem_free(memory);
  driver.mem_free_host(pinned);
  driver.stream_destroy(stream);
}

// CU_EVENT_RECORD_EXTERNAL: "create an event record node"; cuGraphAddEventRecordNode: "Each launch
// of the graph will record event".
TEST_CASE_FIXTURE(GraphContractFixture,
                  "an external event record marks work of the latest launch") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  CHECK(driver.try_event_record_with_flags(event, stream, unsigned{CU_EVENT_RECORD_EXTERNAL}) !=
        CUDA_SUCCESS);
  begin(stream);
  driver.event_record_with_flags(event, stream, unsigned{CU_EVENT_RECORD_EXTERNAL});
  const CUgraph graph = end(stream);
  REQUIRE(nodes(graph).size() == 1);
  CHECK(type(nodes(graph)[0]) == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  const CUgraphExec exec = make_executable(graph);
  CHECK(driver.try_event_query(event) == CUDA_SUCCESS);
  Gate gate(driver, stream);
  driver.graph_launch(exec, stream);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  driver.graph_exec_destroy(exec);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
}

// CU_EVENT_WAIT_EXTERNAL: "create an event wait node"; "This flag is invalid when used outside of
// capture."
TEST_CASE_FIXTURE(GraphContractFixture,
                  "an external wait waits for the event's latest record before the launch") {
  if (!available) return;
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  const CUevent event = make_event();
  CHECK(driver.try_stream_wait_event(stream, event, unsigned{CU_EVENT_WAIT_EXTERNAL}) !=
        CUDA_SUCCESS);
  begin(stream);
  driver.stream_wait_event(stream, event, unsigned{CU_EVENT_WAIT_EXTERNAL});
  const CUgraph graph = end(stream);
  REQUIRE(nodes(graph).size() == 1);
  CHECK(type(nodes(graph)[0]) == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  const CUgraphExec exec = make_executable(graph);
  Gate gate(driver, other);
  driver.event_record(event, other);
  driver.graph_launch(exec, stream);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
  driver.graph_exec_destroy(exec);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
  driver.stream_destroy(other);
}

// "Stream synchronization behavior": the legacy stream waits for blocking streams, launches
// included.
TEST_CASE_FIXTURE(GraphContractFixture,
                  "the legacy stream waits for a graph on a blocking stream") {
  if (!available) return;
  const CopyGraph graph(*this);
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  Gate gate(driver, stream);
  fill(graph.from, 6, CopyGraph::kBytes, stream);
  driver.graph_launch(graph.exec, stream);
  fill(graph.from, 1, CopyGraph::kBytes, nullptr);
  gate.open();
  CHECK(read(graph.to, CopyGraph::kBytes, nullptr) == bytes_of(CopyGraph::kBytes, 6));
  driver.stream_destroy(stream);
}

// cuGraphAddEmptyNode: "dependencies may not have any duplicate entries."
TEST_CASE_FIXTURE(GraphContractFixture, "a node depends on another only once") {
  if (!available) return;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  driver.graph_create(&graph, 0U);
  driver.graph_add_empty_node(&node, graph, nullptr, std::size_t{0});
  CUgraphNode other = nullptr;
  driver.graph_add_empty_node(&other, graph, nullptr, std::size_t{0});
  const CUgraphNode twice[2] = {node, node};
  CHECK(driver.try_graph_add_empty_node(&node, graph, twice, std::size_t{2}) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(nodes(graph).size() == 2);
  driver.graph_destroy(graph);
}

// Work of several devices in one graph.
TEST_CASE_FIXTURE(GraphContractFixture, "a capture reaches a stream of another device") {
  if (!available || !has_two_devices()) return;
  const CUstream here = make_stream();
  const CUdeviceptr memory = make_memory(64);
  const SecondContext second(driver);
  const CUstream there = make_stream();
  const CUdeviceptr remote = make_memory(64);
  driver.ctx_push_current(context);
  begin(here);
  fill(memory, 1, 64, here);
  order(here, there);
  fill(remote, 2, 64, there);
  driver.ctx_push_current(second.context);
  const CUevent event = make_event();
  driver.event_record(event, there);
  driver.ctx_pop_current(nullptr);
  driver.stream_wait_event(here, event, 0U);
  const CUgraphExec exec = make_executable(end(here));
  driver.graph_launch(exec, here);
  driver.stream_synchronize(here);
  CHECK(read(memory, 64, here) == bytes_of(64, 1));
  CHECK(read(remote, 64, here) == bytes_of(64, 2));
  driver.graph_exec_destroy(exec);
  driver.mem_free(memory);
  driver.stream_destroy(here);
  driver.ctx_pop_current(nullptr);
  driver.event_destroy(event);
  driver.mem_free(remote);
  driver.stream_destroy(there);
}

}  // namespace graph_contract_test
