// SPDX-License-Identifier: Apache-2.0
// Clones of graphs, and graphs as nodes of others. Source: CUDA Driver API, "Graph Management".
#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace child_graph_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kModes[] = {"eager", "manual", "random", "timed"};

CUgraph clone(CUgraph graph) {
  CUgraph copy = nullptr;
  OK(CU(cuGraphClone)(&copy, graph));
  return copy;
}

CUgraph make_graph() {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  return graph;
}

CUgraphNode add_empty(CUgraph graph, const std::vector<CUgraphNode>& after = {}) {
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddEmptyNode)(&node, graph, after.data(), after.size()));
  return node;
}

CUgraphNode add_child(CUgraph graph, CUgraph child, const std::vector<CUgraphNode>& after = {}) {
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddChildGraphNode)(&node, graph, after.data(), after.size(), child));
  return node;
}

CUgraph child_of(CUgraphNode node) {
  CUgraph child = nullptr;
  OK(CU(cuGraphChildGraphNodeGetGraph)(node, &child));
  return child;
}

std::size_t edges_of(CUgraph graph) {
  std::size_t count = 0;
  OK(CU(cuGraphGetEdges)(graph, nullptr, nullptr, nullptr, &count));
  return count;
}

/// A graph that writes one byte.
CUgraph fill_graph(CUdeviceptr memory, unsigned char value) {
  return capture([&](CUstream stream) { fill(memory, value, stream); });
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture,
                  "a clone has nodes and edges of its own, each found by its original") {
  const CUgraph graph = make_graph();
  const CUgraphNode first = add_empty(graph);
  const CUgraphNode second = add_empty(graph, {first});
  const CUgraph copy = clone(graph);
  CHECK(copy != graph);
  const std::vector<CUgraphNode> copies = nodes_of(copy);
  REQUIRE(copies.size() == 2);
  CHECK(edges_of(copy) == 1);
  for (const CUgraphNode original : {first, second}) {
    CUgraphNode found = nullptr;
    CHECK(CU(cuGraphNodeFindInClone)(&found, original, copy) == CUDA_SUCCESS);
    CHECK(found != original);
    CHECK(std::ranges::count(copies, found) == 1);
    CHECK(CU(cuGraphNodeFindInClone)(&found, original, graph) == CUDA_ERROR_INVALID_VALUE);
  }
  add_empty(graph);
  CHECK(nodes_of(copy).size() == 2);
  OK(CU(cuGraphDestroy)(graph));
  CHECK(nodes_of(copy).size() == 2);
  OK(CU(cuGraphDestroy)(copy));
  CHECK(sim.live().graphs == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "a clone does what its original did when it was cloned") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph graph = fill_graph(memory, 7);
  const CUgraphExec exec = make_executable(clone(graph));
  OK(CU(cuGraphDestroy)(graph));
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 7));
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE("a child graph runs after its dependencies and before its dependents") {
  for (const char* mode : kModes) {
    CAPTURE(std::string(mode));
    SimFixture fixture(std::string("memory=1GiB,progress=") + mode);
    const CUdeviceptr memory = make_memory(1);
    const CUgraph parts[] = {fill_graph(memory, 1), fill_graph(memory, 2), fill_graph(memory, 3)};
    const CUgraph graph = make_graph();
    CUgraphNode node = nullptr;
    for (const CUgraph part : parts) {
      node = node == nullptr ? add_child(graph, part) : add_child(graph, part, {node});
      OK(CU(cuGraphDestroy)(part));
    }
    const CUgraphExec exec = make_executable(graph);
    const CUstream stream = make_stream();
    for (int launch = 0; launch < 3; ++launch) {
      OK(CU(cuGraphLaunch)(exec, stream));
      OK(CU(cuStreamSynchronize)(stream));
      CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 3));
    }
    CHECK(fixture.sim.take_findings().empty());
    OK(CU(cuGraphExecDestroy)(exec));
  }
}

TEST_CASE_FIXTURE(EagerFixture, "unordered child graphs race") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph part = fill_graph(memory, 1);
  const CUgraph graph = make_graph();
  const CUgraphNode root = add_empty(graph);
  add_child(graph, part, {root});
  add_child(graph, part, {root});
  OK(CU(cuGraphDestroy)(part));
  const CUgraphExec exec = make_executable(graph);
  OK(CU(cuGraphLaunch)(exec, make_stream()));
  CHECK(found_race(sim));
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE_FIXTURE(EagerFixture, "an empty child graph preserves the order around it") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph empty = make_graph();
  const CUgraph first = fill_graph(memory, 1);
  const CUgraph second = fill_graph(memory, 2);
  const CUgraph graph = make_graph();
  const CUgraphNode middle = add_child(graph, empty, {add_child(graph, first)});
  add_child(graph, second, {middle});
  const CUgraphExec exec = make_executable(graph);
  OK(CU(cuGraphLaunch)(exec, make_stream()));
  CHECK(sim.take_findings().empty());
  CHECK(sim.peek(memory, 1) == bytes_of(1, 2));
  for (const CUgraph part : {empty, first, second}) OK(CU(cuGraphDestroy)(part));
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE_FIXTURE(EagerFixture, "a child graph is a copy that its node owns") {
  const CUgraph part = make_graph();
  add_empty(part);
  const CUgraph graph = make_graph();
  const CUgraphNode node = add_child(graph, part);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  OK(CU(cuGraphNodeGetType)(node, &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_GRAPH);
  const CUgraph child = child_of(node);
  CHECK(child != part);
  add_empty(part);
  CHECK(nodes_of(child).size() == 1);
  CHECK(CU(cuGraphDestroy)(child) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.live().graphs == 3);
  OK(CU(cuGraphDestroy)(part));
  OK(CU(cuGraphDestroy)(graph));
  CHECK(sim.live().graphs == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "a clone has copies of the child graphs, too") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraph part = fill_graph(memory, 5);
  const CUgraph middle = make_graph();
  add_child(middle, part);
  const CUgraph graph = make_graph();
  add_child(graph, middle);
  const CUgraph copy = clone(graph);
  CHECK(child_of(nodes_of(copy)[0]) != child_of(nodes_of(graph)[0]));
  for (const CUgraph gone : {part, middle, graph}) OK(CU(cuGraphDestroy)(gone));
  CHECK(sim.live().graphs == 3);
  const CUgraphExec exec = make_executable(copy);
  CHECK(sim.live().graphs == 0);
  OK(CU(cuGraphLaunch)(exec, make_stream()));
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(memory, 1) == bytes_of(1, 5));
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE_FIXTURE(EagerFixture, "a graph can hold a copy of itself") {
  const CUgraph graph = make_graph();
  add_empty(graph);
  const CUgraphNode node = add_child(graph, graph);
  CHECK(nodes_of(graph).size() == 2);
  CHECK(nodes_of(child_of(node)).size() == 1);
  OK(CU(cuGraphDestroy)(graph));
  CHECK(sim.live().graphs == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "invalid arguments of clones and child graphs are refused") {
  const CUgraph graph = make_graph();
  const CUgraph part = make_graph();
  const CUgraphNode own = add_empty(graph);
  const CUgraphNode foreign = add_empty(part);
  CUgraph copy = nullptr;
  CUgraphNode node = nullptr;
  const CUgraph no_graph = reinterpret_cast<CUgraph>(own);
  CHECK(CU(cuGraphClone)(nullptr, graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphClone)(&copy, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphClone)(&copy, no_graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphNodeFindInClone)(nullptr, own, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphNodeFindInClone)(&node, nullptr, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphNodeFindInClone)(&node, own, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphNodeFindInClone)(&node, own, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddChildGraphNode)(nullptr, graph, nullptr, 0, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddChildGraphNode)(&node, nullptr, nullptr, 0, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 1, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddChildGraphNode)(&node, graph, &foreign, 1, part) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphChildGraphNodeGetGraph)(own, &copy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphChildGraphNodeGetGraph)(nullptr, &copy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphChildGraphNodeGetGraph)(add_child(graph, part), nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(nodes_of(graph).size() == 2);
  for (const CUgraph gone : {graph, part}) OK(CU(cuGraphDestroy)(gone));
}

TEST_CASE_FIXTURE(EagerFixture, "adding a graph to itself doubles it until memory runs out") {
  const CUgraph graph = make_graph();
  add_empty(graph);
  CUgraphNode node = nullptr;
  CUresult result = CUDA_SUCCESS;
  int times = 0;
  while (result == CUDA_SUCCESS && ++times < 40)
    result = CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, graph);
  CHECK(result == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(times > 10);
  CUgraph copy = nullptr;
  CHECK(CU(cuGraphClone)(&copy, graph) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(nodes_of(graph).size() == std::size_t(times));
  OK(CU(cuGraphDestroy)(graph));
  const CUgraph small = make_graph();
  add_empty(small);
  OK(CU(cuGraphDestroy)(clone(small)));
  OK(CU(cuGraphDestroy)(small));
}

TEST_CASE_FIXTURE(EagerFixture,
                  "the graph of a capture in progress is neither cloned nor a child") {
  const CUstream stream = make_stream();
  begin_capture(stream);
  const CUgraph captured = captured_graph(stream);
  CUgraph copy = nullptr;
  CUgraphNode node = nullptr;
  const CUgraph graph = make_graph();
  CHECK(CU(cuGraphClone)(&copy, captured) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, captured) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphDestroy)(end_capture(stream)));
  OK(CU(cuGraphDestroy)(graph));
}

}  // namespace child_graph_test
