// SPDX-License-Identifier: Apache-2.0
// Graphs that own memory: nodes that allocate and free.
// Source: CUDA Driver API, cuGraphAddMemAllocNode and its kind; CUDA Programming Guide, "Graph
// Memory Nodes".
#include "contract/graph_contract.hpp"

namespace graph_memory_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kVersion = 11040;
constexpr std::size_t kBytes = 1 << 20;

struct GraphMemoryFixture : GraphContractFixture {
  GraphMemoryFixture() : stream(make_stream()) {
    available = available && add_allocation != nullptr;
    if (available) driver.graph_create(&graph, 0U);
  }
  ~GraphMemoryFixture() {
    driver.try_ctx_synchronize();
    if (exec != nullptr) driver.try_graph_exec_destroy(exec);
    if (graph != nullptr) driver.try_graph_destroy(graph);
    if (available) trim(0);
    driver.try_stream_destroy(stream);
  }

  [[nodiscard]] static CUDA_MEM_ALLOC_NODE_PARAMS wanted() {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = kBytes;
    return params;
  }
  CUdeviceptr add_memory() {
    CUDA_MEM_ALLOC_NODE_PARAMS params = wanted();
    REQUIRE(add_allocation(&node, graph, nullptr, 0, &params) == CUDA_SUCCESS);
    REQUIRE(params.dptr != 0);
    return params.dptr;
  }
  void instantiate(unsigned long long flags = 0) { driver.graph_instantiate(&exec, graph, flags); }
  [[nodiscard]] cuuint64_t bytes(CUgraphMem_attribute attribute) const {
    cuuint64_t value = 99;
    REQUIRE(get_attribute(0, attribute, &value) == CUDA_SUCCESS);
    return value;
  }

  decltype(&::cuGraphAddMemAllocNode) add_allocation =
      CONTRACT_FUNCTION(cuGraphAddMemAllocNode, kVersion);
  decltype(&::cuGraphMemAllocNodeGetParams) get_allocation =
      CONTRACT_FUNCTION(cuGraphMemAllocNodeGetParams, kVersion);
  decltype(&::cuGraphAddMemFreeNode) add_free = CONTRACT_FUNCTION(cuGraphAddMemFreeNode, kVersion);
  decltype(&::cuGraphMemFreeNodeGetParams) get_free =
      CONTRACT_FUNCTION(cuGraphMemFreeNodeGetParams, kVersion);
  decltype(&::cuDeviceGraphMemTrim) trim = CONTRACT_FUNCTION(cuDeviceGraphMemTrim, kVersion);
  decltype(&::cuDeviceGetGraphMemAttribute) get_attribute =
      CONTRACT_FUNCTION(cuDeviceGetGraphMemAttribute, kVersion);
  decltype(&::cuDeviceSetGraphMemAttribute) set_attribute =
      CONTRACT_FUNCTION(cuDeviceSetGraphMemAttribute, kVersion);
  decltype(&::cuMemAllocAsync) allocate_async = CONTRACT_FUNCTION(cuMemAllocAsync, 11020);
  decltype(&::cuMemFreeAsync) free_async = CONTRACT_FUNCTION(cuMemFreeAsync, 11020);
  decltype(&::cuGraphClone) clone = CONTRACT_FUNCTION(cuGraphClone, 10000);

  CUstream stream;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
};

}  // namespace

// cuGraphAddMemAllocNode: "it returns the address of the allocation in nodeParams.dptr"; the getter
// "Returns the parameters of a memory alloc node".
TEST_CASE_FIXTURE(GraphMemoryFixture, "the parameters of an allocation node can be queried") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  CHECK(type(node) == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  CHECK(get_allocation(node, &params) == CUDA_SUCCESS);
  CHECK(params.dptr == memory);
  CHECK(params.bytesize == kBytes);
  CHECK(params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(params.poolProps.location.id == 0);
  CUgraphNode free = nullptr;
  CHECK(add_free(&free, graph, &node, 1, memory) == CUDA_SUCCESS);
  CHECK(type(free) == CU_GRAPH_NODE_TYPE_MEM_FREE);
  CUdeviceptr freed = 0;
  CHECK(get_free(free, &freed) == CUDA_SUCCESS);
  CHECK(freed == memory);
  CHECK(get_free(node, &freed) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get_allocation(free, &params) == CUDA_ERROR_INVALID_VALUE);
}

// cuGraphAddMemFreeNode: "will return CUDA_ERROR_INVALID_VALUE if the user attempts to free: an
// allocation twice in the same graph. An address that was not returned by an allocation node."
TEST_CASE_FIXTURE(GraphMemoryFixture, "a graph frees the memory of an allocation node once") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  const CUdeviceptr other = make_memory(kBytes);
  CUgraphNode free = nullptr;
  CHECK(add_free(&free, graph, nullptr, 0, other) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add_free(&free, graph, nullptr, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add_free(&free, graph, &node, 1, memory) == CUDA_SUCCESS);
  CHECK(add_free(&free, graph, &node, 1, memory) == CUDA_ERROR_INVALID_VALUE);
  CUgraph second = nullptr;
  driver.graph_create(&second, 0U);
  CHECK(add_free(&free, second, nullptr, 0, memory) == CUDA_ERROR_INVALID_VALUE);
  driver.graph_destroy(second);
  driver.mem_free(other);
}

// cuMemAllocAsync: "During stream capture, this function results in the creation of an allocation
// node"; cuMemFreeAsync: "of a free node".
TEST_CASE_FIXTURE(GraphMemoryFixture, "a capture records allocation and free") {
  if (!available) return;
  const CUdeviceptr result = make_memory(64);
  begin(stream);
  CUdeviceptr memory = 0;
  CHECK(allocate_async(&memory, kBytes, stream) == CUDA_SUCCESS);
  fill(memory, 7, kBytes, stream);
  driver.memcpy_async(result, memory, 64, stream);
  CHECK(free_async(memory, stream) == CUDA_SUCCESS);
  const CUgraph captured = end(stream);
  const std::vector<CUgraphNode> all = nodes(captured);
  REQUIRE(all.size() == 4);
  CHECK(type(all.front()) == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  CHECK(type(all.back()) == CU_GRAPH_NODE_TYPE_MEM_FREE);
  exec = make_executable(captured);
  for (const int again : {1, 2, 3}) {
    CAPTURE(again);
    driver.graph_launch(exec, stream);
    CHECK(read(result, 64, stream) == bytes_of(64, 7));
    fill(result, 0, 64, stream);
  }
  driver.stream_synchronize(stream);
  driver.mem_free(result);
}

// "it can be accessed not only by nodes in the graph ..., but also by stream operations ordered
// after the graph's execution but before the allocation is freed"; freed by "passing the allocation
// to cuMemFreeAsync". Guide: the graph can then be launched again.
TEST_CASE_FIXTURE(GraphMemoryFixture, "the program frees memory that a graph leaves allocated") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  instantiate();
  CHECK(free_async(memory, stream) == CUDA_ERROR_INVALID_VALUE);
  for (const unsigned char value : bytes_of(2, 3)) {
    driver.graph_launch(exec, stream);
    fill(memory, value, kBytes, stream);
    CHECK(read(memory, kBytes, stream) == bytes_of(kBytes, value));
    CHECK(free_async(memory, stream) == CUDA_SUCCESS);
    CHECK(free_async(memory, stream) == CUDA_ERROR_INVALID_VALUE);
  }
  driver.graph_launch(exec, stream);
  driver.stream_synchronize(stream);
  CHECK(driver.try_mem_free(memory) == CUDA_SUCCESS);
}

// Guide, "Graph Memory Nodes": a graph with unfreed memory "cannot be relaunched" without
// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.
TEST_CASE_FIXTURE(GraphMemoryFixture,
                  "a second launch is refused while memory of the first is allocated") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  instantiate();
  driver.graph_launch(exec, stream);
  CHECK(driver.try_graph_launch(exec, stream) == CUDA_ERROR_INVALID_VALUE);
  fill(memory, 5, 64, stream);
  CHECK(read(memory, 64, stream) == bytes_of(64, 5));
  CHECK(free_async(memory, stream) == CUDA_SUCCESS);
}

// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH: "Automatically free memory allocated in a graph
// before relaunching".
TEST_CASE_FIXTURE(GraphMemoryFixture,
                  "with the auto-free flag a launch frees memory that the previous launch left") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (const unsigned char value : bytes_of(3, 2)) {
    driver.graph_launch(exec, stream);
    fill(memory, value, kBytes, stream);
    CHECK(read(memory, 64, stream) == bytes_of(64, value));
  }
  CHECK(free_async(memory, stream) == CUDA_SUCCESS);
}

// "Allocations which are not freed in the same graph can be freed by: ... launching a graph with a
// free node for that allocation".
TEST_CASE_FIXTURE(GraphMemoryFixture, "one graph allocates, and another frees") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  CUgraph second = nullptr;
  CUgraphNode free = nullptr;
  driver.graph_create(&second, 0U);
  REQUIRE(add_free(&free, second, nullptr, 0, memory) == CUDA_SUCCESS);
  CHECK(add_free(&free, graph, &node, 1, memory) == CUDA_ERROR_INVALID_VALUE);
  instantiate();
  const CUgraphExec freeing = make_executable(second);
  CHECK(driver.try_graph_launch(freeing, stream) == CUDA_ERROR_INVALID_VALUE);
  for (const int again : {1, 2}) {
    CAPTURE(again);
    driver.graph_launch(exec, stream);
    fill(memory, 9, kBytes, stream);
    driver.graph_launch(freeing, stream);
    CHECK(free_async(memory, stream) == CUDA_ERROR_INVALID_VALUE);
  }
  driver.stream_synchronize(stream);
  driver.graph_exec_destroy(freeing);
}

// "Only one instantiation of the graph may exist at any point in time. The graph cannot be cloned."
TEST_CASE_FIXTURE(GraphMemoryFixture, "a graph that owns memory is not copied") {
  if (!available) return;
  add_memory();
  CUgraph copy = nullptr;
  CUgraphExec second = nullptr;
  CHECK(clone(&copy, graph) != CUDA_SUCCESS);
  instantiate();
  CHECK(driver.try_graph_instantiate(&second, graph, 0ULL) != CUDA_SUCCESS);
  driver.graph_exec_destroy(exec);
  instantiate();
}

// Guide: an allocation's memory outlives the graph and the executable graph until it is freed.
TEST_CASE_FIXTURE(GraphMemoryFixture, "memory outlives the graphs that allocated it") {
  if (!available) return;
  const CUdeviceptr memory = add_memory();
  instantiate();
  driver.graph_launch(exec, stream);
  driver.graph_exec_destroy(exec);
  driver.graph_destroy(graph);
  exec = nullptr;
  graph = nullptr;
  fill(memory, 8, kBytes, stream);
  CHECK(read(memory, 64, stream) == bytes_of(64, 8));
  CHECK(free_async(memory, stream) == CUDA_SUCCESS);
}

// cuDeviceGetGraphMemAttribute; cuDeviceGraphMemTrim: "Blocks which are not in use by a graph that
// is either currently executing or scheduled to execute are freed back".
TEST_CASE_FIXTURE(GraphMemoryFixture, "a device counts the memory of graphs, and gives it back") {
  if (!available) return;
  CHECK(trim(0) == CUDA_SUCCESS);
  const cuuint64_t used = bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
  const cuuint64_t reserved = bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
  cuuint64_t zero = 0;
  CHECK(set_attribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero) == CUDA_SUCCESS);
  CHECK(set_attribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero) == CUDA_SUCCESS);
  const CUdeviceptr memory = add_memory();
  instantiate();
  driver.graph_launch(exec, stream);
  driver.stream_synchronize(stream);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= used + kBytes);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= reserved + kBytes);
  CHECK(trim(0) == CUDA_SUCCESS);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= reserved + kBytes);
  CHECK(free_async(memory, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == used);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= used + kBytes);
  CHECK(trim(0) == CUDA_SUCCESS);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == reserved);
  CHECK(bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= reserved + kBytes);
  CHECK(set_attribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace graph_memory_contract_test
