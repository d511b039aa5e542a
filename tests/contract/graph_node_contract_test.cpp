// SPDX-License-Identifier: Apache-2.0
// Nodes that a program adds to a graph and changes, in the graph and in executable graphs, and the
// edges between them. Source: CUDA Driver API, "Graph Management".
#include <atomic>
#include <cstring>

#include "contract/graph_contract.hpp"

namespace graph_node_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

struct NodeFixture : GraphContractFixture {
  NodeFixture() {
    if (available && (f_add_node == nullptr || f_add_copy == nullptr))
      MESSAGE("skipped: needs generic nodes");
    available = available && f_add_node != nullptr && f_add_copy != nullptr;
  }
  ~NodeFixture() {
    if (!available) return;
    driver.try_ctx_synchronize();
    driver.try_graph_destroy(graph);
    driver.try_mem_free(memory);
    driver.try_stream_destroy(stream);
  }

  [[nodiscard]] CUgraph make_graph() const {
    CUgraph made = nullptr;
    driver.graph_create(&made, 0U);
    return made;
  }
  /// A copy of `bytes` inside the memory.
  [[nodiscard]] CUDA_MEMCPY3D copy_params(std::size_t to, std::size_t from,
                                          std::size_t bytes) const {
    CUDA_MEMCPY3D params{};
    params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = memory + from;
    params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.dstDevice = memory + to;
    params.WidthInBytes = bytes;
    params.Height = 1;
    params.Depth = 1;
    return params;
  }
  [[nodiscard]] CUDA_MEMSET_NODE_PARAMS fill_params(std::size_t at, unsigned value,
                                                    std::size_t bytes) const {
    return {.dst = memory + at,
            .pitch = 0,
            .value = value,
            .elementSize = 1,
            .width = bytes,
            .height = 1};
  }
  [[nodiscard]] CUgraphNode add_copy(std::size_t to, std::size_t from,
                                     std::vector<CUgraphNode> after = {}) const {
    CUgraphNode node = nullptr;
    const CUDA_MEMCPY3D params = copy_params(to, from, 16);
    REQUIRE(f_add_copy(&node, graph, after.data(), after.size(), &params, context) == CUDA_SUCCESS);
    return node;
  }
  [[nodiscard]] CUgraphNode add_fill(std::size_t at, unsigned value,
                                     std::vector<CUgraphNode> after = {}) const {
    CUgraphNode node = nullptr;
    const CUDA_MEMSET_NODE_PARAMS params = fill_params(at, value, 16);
    REQUIRE(f_add_fill(&node, graph, after.data(), after.size(), &params, context) == CUDA_SUCCESS);
    return node;
  }
  [[nodiscard]] CUgraphExec instantiate(CUgraph of) const {
    CUgraphExec exec = nullptr;
    driver.graph_instantiate(&exec, of, 0ULL);
    return exec;
  }
  [[nodiscard]] std::vector<unsigned char> launch(CUgraphExec exec, std::size_t at) const {
    driver.graph_launch(exec, stream);
    return read(memory + at, 16, stream);
  }
  void clone(CUgraph* copy, CUgraph of) const {
    REQUIRE(CONTRACT_FUNCTION(cuGraphClone, 10000)(copy, of) == CUDA_SUCCESS);
  }
  [[nodiscard]] std::size_t edges(CUgraph of) const {
    std::size_t count = 0;
    driver.graph_get_edges(of, nullptr, nullptr, nullptr, &count);
    return count;
  }

  decltype(&::cuGraphAddMemcpyNode) f_add_copy = CONTRACT_FUNCTION(cuGraphAddMemcpyNode, 10000);
  decltype(&::cuGraphAddMemsetNode) f_add_fill = CONTRACT_FUNCTION(cuGraphAddMemsetNode, 10000);
  decltype(&::cuGraphAddNode) f_add_node = CONTRACT_FUNCTION(cuGraphAddNode, 12030);
  CUstream stream = available ? make_stream() : nullptr;
  CUdeviceptr memory = available ? make_memory(4096) : 0;
  CUgraph graph = available ? make_graph() : nullptr;
};

}  // namespace

// cuGraphAddMemcpyNode, cuGraphAddMemsetNode: "Creates a [...] node and adds it to a graph [...]
// When the graph is launched, the node will perform" the copy or the fill.
TEST_CASE_FIXTURE(NodeFixture, "a program adds a fill and a copy to a graph") {
  if (!available) return;
  const CUgraphNode first = add_fill(0, 7);
  const CUgraphNode second = add_copy(64, 0, {first});
  CHECK(type(first) == CU_GRAPH_NODE_TYPE_MEMSET);
  CHECK(type(second) == CU_GRAPH_NODE_TYPE_MEMCPY);
  const CUgraphExec exec = instantiate(graph);
  CHECK(launch(exec, 64) == bytes_of(16, 7));
  driver.graph_exec_destroy(exec);
}

// cuGraphAddMemsetNode: "elementSize [...] Must be 1, 2, or 4". cuMemcpy3D: "If specified, srcPitch
// must be greater than or equal to WidthInBytes + srcXInBytes".
TEST_CASE_FIXTURE(NodeFixture, "copies and fills outside memory are not added") {
  if (!available) return;
  CUgraphNode node = nullptr;
  const auto adds_fill = [&](CUDA_MEMSET_NODE_PARAMS params) {
    return f_add_fill(&node, graph, nullptr, 0, &params, context);
  };
  const auto adds_copy = [&](CUDA_MEMCPY3D params) {
    return f_add_copy(&node, graph, nullptr, 0, &params, context);
  };
  CUDA_MEMSET_NODE_PARAMS fill = fill_params(0, 1, 16);
  fill.elementSize = 3;
  CHECK(adds_fill(fill) == CUDA_ERROR_INVALID_VALUE);
  CHECK(adds_fill(fill_params(0, 1, 1ULL << 40)) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D copy = copy_params(0, 64, 16);
  copy.srcPitch = 8;
  CHECK(adds_copy(copy) == CUDA_ERROR_INVALID_VALUE);
  copy = copy_params(0, 64, 16);
  copy.srcLOD = 1;
  CHECK(adds_copy(copy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f_add_fill(&node, graph, nullptr, 0, nullptr, context) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f_add_copy(&node, graph, nullptr, 0, nullptr, context) == CUDA_ERROR_INVALID_VALUE);
  CHECK(nodes(graph).empty());
}

// cuMemcpy3D: "srcHost+(srcZ*srcHeight+srcY)*srcPitch + srcXInBytes".
TEST_CASE_FIXTURE(NodeFixture, "a node copies a part of a volume") {
  if (!available) return;
  unsigned char* const host = make_pinned(256);
  for (int i = 0; i < 256; ++i) host[i] = static_cast<unsigned char>(i);
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = CU_MEMORYTYPE_HOST;
  params.srcHost = host;
  params.srcPitch = 8;
  params.srcHeight = 4;
  params.srcXInBytes = 2;
  params.srcY = 1;
  params.srcZ = 1;
  params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  params.dstDevice = memory;
  params.dstPitch = 4;
  params.dstHeight = 2;
  params.WidthInBytes = 4;
  params.Height = 2;
  params.Depth = 2;
  CUgraphNode node = nullptr;
  REQUIRE(f_add_copy(&node, graph, nullptr, 0, &params, context) == CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  CHECK(launch(exec, 0) ==
        std::vector<unsigned char>{42, 43, 44, 45, 50, 51, 52, 53, 74, 75, 76, 77, 82, 83, 84, 85});
  const auto get = CONTRACT_FUNCTION(cuGraphMemcpyNodeGetParams, 10000);
  CUDA_MEMCPY3D got{};
  CHECK(get(node, &got) == CUDA_SUCCESS);
  CHECK(got.srcHost == host);
  CHECK(got.Depth == 2);
  driver.graph_exec_destroy(exec);
  driver.mem_free_host(host);
}

// cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams: "The modifications only affect future
// launches of hGraphExec [...] hNode is also not modified by this call."
TEST_CASE_FIXTURE(NodeFixture, "a graph and its executable graph change apart") {
  if (!available) return;
  const auto get = CONTRACT_FUNCTION(cuGraphMemsetNodeGetParams, 10000);
  const auto set = CONTRACT_FUNCTION(cuGraphMemsetNodeSetParams, 10000);
  const auto set_exec = CONTRACT_FUNCTION(cuGraphExecMemsetNodeSetParams, 10020);
  const CUgraphNode node = add_fill(0, 1);
  const CUgraphExec exec = instantiate(graph);
  CUDA_MEMSET_NODE_PARAMS params = fill_params(0, 2, 16);
  CHECK(set_exec(exec, node, &params, context) == CUDA_SUCCESS);
  CHECK(launch(exec, 0) == bytes_of(16, 2));
  CHECK(get(node, &params) == CUDA_SUCCESS);
  CHECK(params.value == 1);
  params = fill_params(0, 3, 16);
  CHECK(set(node, &params) == CUDA_SUCCESS);
  CHECK(launch(exec, 0) == bytes_of(16, 2));
  driver.graph_exec_destroy(exec);
  const CUgraphExec later = instantiate(graph);
  CHECK(launch(later, 0) == bytes_of(16, 3));
  params.height = 2;
  params.pitch = 64;
  CHECK(set_exec(later, node, &params, context) == CUDA_ERROR_INVALID_VALUE);
  driver.graph_exec_destroy(later);
}

// cuGraphExecMemcpyNodeSetParams, of a node that was captured.
TEST_CASE_FIXTURE(NodeFixture, "parameters of a captured copy can be queried and changed") {
  if (!available) return;
  const auto get = CONTRACT_FUNCTION(cuGraphMemcpyNodeGetParams, 10000);
  const auto set_exec = CONTRACT_FUNCTION(cuGraphExecMemcpyNodeSetParams, 10020);
  fill(memory, 5, 64, stream);
  fill(memory + 64, 6, 64, stream);
  begin(stream);
  driver.memcpy_async(memory + 128, memory, std::size_t{16}, stream);
  const CUgraph captured = end(stream);
  const CUgraphNode node = nodes(captured).at(0);
  CUDA_MEMCPY3D params{};
  CHECK(get(node, &params) == CUDA_SUCCESS);
  CHECK(params.srcDevice == memory);
  CHECK(params.dstDevice == memory + 128);
  CHECK(params.WidthInBytes == 16);
  const CUgraphExec exec = instantiate(captured);
  params = copy_params(128, 64, 16);
  CHECK(set_exec(exec, node, &params, context) == CUDA_SUCCESS);
  CHECK(launch(exec, 128) == bytes_of(16, 6));
  driver.graph_exec_destroy(exec);
  driver.graph_destroy(captured);
}

// cuGraphExecUpdate: the nodes by which an executable graph is changed are those of "the graph
// which was used to instantiate hGraphExec".
TEST_CASE_FIXTURE(NodeFixture, "after an update, the nodes are still those of the first graph") {
  if (!available) return;
  const auto set_exec = CONTRACT_FUNCTION(cuGraphExecMemsetNodeSetParams, 10020);
  const auto set_enabled = CONTRACT_FUNCTION(cuGraphNodeSetEnabled, 11060);
  const auto get_enabled = CONTRACT_FUNCTION(cuGraphNodeGetEnabled, 11060);
  const CUgraphNode node = add_fill(0, 1);
  const CUgraphExec exec = instantiate(graph);
  CHECK(set_enabled(exec, node, 0) == CUDA_SUCCESS);
  CUgraph other = nullptr;
  clone(&other, graph);
  CUgraphExecUpdateResultInfo result{};
  const auto update = CONTRACT_FUNCTION(cuGraphExecUpdate, 12000);
  CHECK(update(exec, other, &result) == CUDA_SUCCESS);
  driver.graph_destroy(other);
  unsigned enabled = 1;
  CHECK(get_enabled(exec, node, &enabled) == CUDA_SUCCESS);
  CHECK(enabled == 0);
  CHECK(set_enabled(exec, node, 1) == CUDA_SUCCESS);
  const CUDA_MEMSET_NODE_PARAMS params = fill_params(0, 9, 16);
  CHECK(set_exec(exec, node, &params, context) == CUDA_SUCCESS);
  CHECK(launch(exec, 0) == bytes_of(16, 9));
  driver.graph_exec_destroy(exec);
}

// cuGraphNodeSetEnabled: "Disabled nodes are functionally equivalent to empty nodes until they are
// reenabled. [...] Currently only kernel, memset and memcpy nodes are supported."
TEST_CASE_FIXTURE(NodeFixture, "a node that is disabled does nothing, and keeps the order") {
  if (!available) return;
  const auto set_enabled = CONTRACT_FUNCTION(cuGraphNodeSetEnabled, 11060);
  const CUgraphNode first = add_fill(0, 1);
  const CUgraphNode second = add_fill(0, 2, {first});
  const CUgraphNode third = add_copy(64, 0, {second});
  CUgraphNode empty = nullptr;
  driver.graph_add_empty_node(&empty, graph, &third, std::size_t{1});
  const CUgraphExec exec = instantiate(graph);
  CHECK(set_enabled(exec, second, 0) == CUDA_SUCCESS);
  CHECK(launch(exec, 64) == bytes_of(16, 1));
  CHECK(set_enabled(exec, second, 1) == CUDA_SUCCESS);
  CHECK(launch(exec, 64) == bytes_of(16, 2));
  CHECK(set_enabled(exec, empty, 0) == CUDA_ERROR_INVALID_VALUE);
  driver.graph_exec_destroy(exec);
}

// cuGraphAddDependencies: "Specifying an existing dependency will return an error."
// cuGraphRemoveDependencies: "Specifying an edge that does not exist in the graph [...] results in
// an error."
TEST_CASE_FIXTURE(NodeFixture, "edges are added and removed, and a launch follows them") {
  if (!available) return;
  const auto add = CONTRACT_FUNCTION(cuGraphAddDependencies, 12030);
  const auto remove = CONTRACT_FUNCTION(cuGraphRemoveDependencies, 12030);
  const CUgraphNode copy = add_copy(64, 0);
  const CUgraphNode fill = add_fill(0, 4);
  // The copy comes after what was added after it.
  CHECK(add(graph, &fill, &copy, nullptr, 1) == CUDA_SUCCESS);
  CHECK(add(graph, &fill, &copy, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(graph, &copy, &fill, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(graph, &copy, &copy, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(edges(graph) == 1);
  const CUgraphExec exec = instantiate(graph);
  CHECK(launch(exec, 64) == bytes_of(16, 4));
  driver.graph_exec_destroy(exec);
  CUgraph twin = nullptr;
  clone(&twin, graph);
  CHECK(edges(twin) == 1);
  const CUgraphExec copied = instantiate(twin);
  driver.memset_d8_async(memory, static_cast<unsigned char>(0), std::size_t{128}, stream);
  CHECK(launch(copied, 64) == bytes_of(16, 4));
  driver.graph_exec_destroy(copied);
  driver.graph_destroy(twin);
  CHECK(remove(graph, &fill, &copy, nullptr, 1) == CUDA_SUCCESS);
  CHECK(remove(graph, &fill, &copy, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(edges(graph) == 0);
}

// The same: if one of several edges is refused, none is changed.
TEST_CASE_FIXTURE(NodeFixture, "edges of one call are changed together") {
  if (!available) return;
  const auto add = CONTRACT_FUNCTION(cuGraphAddDependencies, 12030);
  const auto remove = CONTRACT_FUNCTION(cuGraphRemoveDependencies, 12030);
  const CUgraphNode one = add_fill(0, 1);
  const CUgraphNode two = add_fill(16, 2);
  const CUgraphNode from[] = {one, two};
  const CUgraphNode to[] = {two, one};
  CHECK(add(graph, from, to, nullptr, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(edges(graph) == 0);
  CHECK(add(graph, from, to, nullptr, 1) == CUDA_SUCCESS);
  CHECK(remove(graph, from, to, nullptr, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(edges(graph) == 1);
}

// cuGraphDestroyNode: "Removes a node from the graph. This operation also severs any dependencies
// of other nodes on hNode and vice versa."
TEST_CASE_FIXTURE(NodeFixture, "a node is removed with its edges") {
  if (!available) return;
  const auto destroy = CONTRACT_FUNCTION(cuGraphDestroyNode, 10000);
  const CUgraphNode first = add_fill(0, 1);
  const CUgraphNode second = add_fill(16, 2, {first});
  const CUgraphNode third = add_fill(32, 3, {second});
  CHECK(destroy(second) == CUDA_SUCCESS);
  CHECK(nodes(graph) == std::vector<CUgraphNode>{first, third});
  CHECK(edges(graph) == 0);
  CHECK(destroy(second) == CUDA_ERROR_INVALID_VALUE);
}

// cuGraphAddNode: "nodeParams is an inout parameter and is used to return" the address of memory.
TEST_CASE_FIXTURE(NodeFixture, "nodes are added by generic parameters") {
  if (!available) return;
  static std::atomic<int> calls;
  calls = 0;
  CUgraphNode last = nullptr;
  const auto add = [&](CUgraphNodeParams params) {
    const CUgraphNode after = last;
    REQUIRE(f_add_node(&last, graph, &after, nullptr, after == nullptr ? 0 : 1, &params) ==
            CUDA_SUCCESS);
    CHECK(type(last) == params.type);
  };
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset = {.dst = memory,
                   .pitch = 0,
                   .value = 8,
                   .elementSize = 1,
                   .width = 16,
                   .height = 1,
                   .ctx = context};
  add(params);
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  params.memcpy.copyCtx = context;
  params.memcpy.copyParams = copy_params(64, 0, 16);
  add(params);
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  params.host = {.fn = [](void*) { ++calls; }, .userData = nullptr};
  add(params);
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  add(params);
  const CUgraphExec exec = instantiate(graph);
  CHECK(launch(exec, 64) == bytes_of(16, 8));
  CHECK(calls == 1);
  driver.graph_exec_destroy(exec);
}

// The same, for what is not valid.
TEST_CASE_FIXTURE(NodeFixture,
                  "generic parameters with nonzero reserved fields or missing values are refused") {
  if (!available) return;
  CUgraphNode node = nullptr;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  CHECK(f_add_node(&node, graph, nullptr, nullptr, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f_add_node(nullptr, graph, nullptr, nullptr, 0, &params) == CUDA_ERROR_INVALID_VALUE);
  params.reserved0[1] = 1;
  CHECK(f_add_node(&node, graph, nullptr, nullptr, 0, &params) == CUDA_ERROR_INVALID_VALUE);
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  CHECK(f_add_node(&node, graph, nullptr, nullptr, 0, &params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(nodes(graph).empty());
}

// cuGraphHostNodeSetParams, cuGraphEventRecordNodeSetEvent and their kind.
TEST_CASE_FIXTURE(NodeFixture, "parameters of host function and event nodes can be queried") {
  if (!available) return;
  const auto get_host = CONTRACT_FUNCTION(cuGraphHostNodeGetParams, 10000);
  const auto set_host = CONTRACT_FUNCTION(cuGraphExecHostNodeSetParams, 10020);
  const auto add_host = CONTRACT_FUNCTION(cuGraphAddHostNode, 10000);
  const auto add_record = CONTRACT_FUNCTION(cuGraphAddEventRecordNode, 11010);
  const auto get_event = CONTRACT_FUNCTION(cuGraphEventRecordNodeGetEvent, 11010);
  const auto set_event = CONTRACT_FUNCTION(cuGraphEventRecordNodeSetEvent, 11010);
  static int first;
  static int second;
  first = second = 0;
  const auto count = [](void* number) { ++*static_cast<int*>(number); };
  CUDA_HOST_NODE_PARAMS host{.fn = count, .userData = &first};
  CUgraphNode node = nullptr;
  CHECK(add_host(&node, graph, nullptr, 0, &host) == CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  host.userData = &second;
  CHECK(set_host(exec, node, &host) == CUDA_SUCCESS);
  driver.graph_launch(exec, stream);
  driver.stream_synchronize(stream);
  CHECK(first == 0);
  CHECK(second == 1);
  CHECK(get_host(node, &host) == CUDA_SUCCESS);
  CHECK(host.userData == &first);
  const CUevent one = make_event();
  const CUevent other = make_event();
  CUevent got = nullptr;
  CHECK(add_record(&node, graph, nullptr, 0, one) == CUDA_SUCCESS);
  CHECK(get_event(node, &got) == CUDA_SUCCESS);
  CHECK(got == one);
  CHECK(set_event(node, other) == CUDA_SUCCESS);
  CHECK(get_event(node, &got) == CUDA_SUCCESS);
  CHECK(got == other);
  CHECK(set_event(node, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get_host(node, &host) == CUDA_ERROR_INVALID_VALUE);
  driver.graph_exec_destroy(exec);
  driver.event_destroy(one);
  driver.event_destroy(other);
}

// cuGraphExecChildGraphNodeSetParams: "childGraph [...] must have the same topology".
TEST_CASE_FIXTURE(NodeFixture, "the child graph of a node can be changed in an executable graph") {
  if (!available) return;
  const auto set_child = CONTRACT_FUNCTION(cuGraphExecChildGraphNodeSetParams, 11010);
  const CUgraphNode fill = add_fill(0, 1);
  static_cast<void>(add_copy(64, 0, {fill}));
  const CUgraph parent = make_graph();
  CUgraphNode before = nullptr;
  CUgraphNode child = nullptr;
  driver.graph_add_empty_node(&before, parent, nullptr, std::size_t{0});
  const auto add_child = CONTRACT_FUNCTION(cuGraphAddChildGraphNode, 10000);
  CHECK(add_child(&child, parent, &before, 1, graph) == CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(parent);
  CUDA_MEMSET_NODE_PARAMS params = fill_params(0, 5, 16);
  CHECK(CONTRACT_FUNCTION(cuGraphMemsetNodeSetParams, 10000)(fill, &params) == CUDA_SUCCESS);
  CHECK(set_child(exec, child, graph) == CUDA_SUCCESS);
  CHECK(launch(exec, 64) == bytes_of(16, 5));
  const CUgraph other = make_graph();
  CHECK(set_child(exec, child, other) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(exec, 64) == bytes_of(16, 5));
  driver.graph_exec_destroy(exec);
  driver.graph_destroy(other);
  driver.graph_destroy(parent);
}

// cuMemcpy3D.
TEST_CASE_FIXTURE(NodeFixture, "a volume is copied without a graph, too") {
  if (!available) return;
  const auto copy = CONTRACT_FUNCTION(cuMemcpy3D, 3020);
  const auto copy_async = CONTRACT_FUNCTION(cuMemcpy3DAsync, 3020);
  driver.memset_d8_async(memory, static_cast<unsigned char>(3), std::size_t{16}, stream);
  driver.stream_synchronize(stream);
  CUDA_MEMCPY3D params = copy_params(64, 0, 4);
  params.srcPitch = params.dstPitch = 4;
  params.Height = params.srcHeight = params.dstHeight = 2;
  params.Depth = 2;
  CHECK(copy(&params) == CUDA_SUCCESS);
  driver.ctx_synchronize();
  CHECK(read(memory + 64, 16, stream) == bytes_of(16, 3));
  params.dstDevice = memory + 128;
  CHECK(copy_async(&params, stream) == CUDA_SUCCESS);
  CHECK(read(memory + 128, 16, stream) == bytes_of(16, 3));
  params.srcHeight = 1;
  CHECK(copy(&params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace graph_node_contract_test
