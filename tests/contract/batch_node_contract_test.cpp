// SPDX-License-Identifier: Apache-2.0
// Waits for values of memory, and writes of them, in graphs.
// Source: CUDA Driver API, cuGraphAddBatchMemOpNode.
#include <array>
#include <atomic>

#include "contract/graph_contract.hpp"

namespace batch_node_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kVersion = 11070;

CUstreamBatchMemOpParams operation(CUstreamBatchMemOpType type, CUdeviceptr address,
                                   cuuint32_t value, unsigned flags = 0) {
  CUstreamBatchMemOpParams params{};
  params.waitValue = {
      .operation = type, .address = address, .value64 = value, .flags = flags, .alias = 0};
  return params;
}
CUstreamBatchMemOpParams wait_of(CUdeviceptr address, cuuint32_t value) {
  return operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, CU_STREAM_WAIT_VALUE_EQ);
}
CUstreamBatchMemOpParams write_of(CUdeviceptr address, cuuint32_t value) {
  return operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value);
}

struct BatchNodeFixture : GraphContractFixture {
  BatchNodeFixture() : stream(make_stream()) {
    int supported = 0;
    driver.try_device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0);
    if (add_batch == nullptr || supported == 0) {
      available = false;
      MESSAGE("skipped: needs stream memory operations in graphs");
      return;
    }
    words = reinterpret_cast<cuuint32_t*>(make_pinned(4096));
    driver.graph_create(&graph, 0U);
  }
  ~BatchNodeFixture() {
    driver.try_ctx_synchronize();
    if (exec != nullptr) driver.try_graph_exec_destroy(exec);
    if (graph != nullptr) driver.try_graph_destroy(graph);
    if (words != nullptr) driver.try_mem_free_host(words);
    driver.try_stream_destroy(stream);
  }

  [[nodiscard]] CUdeviceptr address(std::size_t word) const { return address_of(words + word); }
  [[nodiscard]] cuuint32_t get(std::size_t word) const {
    return std::atomic_ref<cuuint32_t>(words[word]).load();
  }
  void set(std::size_t word, cuuint32_t value) const {
    std::atomic_ref<cuuint32_t>(words[word]).store(value);
  }
  template <std::size_t count>
  [[nodiscard]] CUDA_BATCH_MEM_OP_NODE_PARAMS params(
      std::array<CUstreamBatchMemOpParams, count>& operations) const {
    return {.ctx = context, .count = count, .paramArray = operations.data(), .flags = 0};
  }

  decltype(&::cuGraphAddBatchMemOpNode) add_batch =
      CONTRACT_FUNCTION(cuGraphAddBatchMemOpNode, kVersion);
  decltype(&::cuGraphBatchMemOpNodeGetParams) get_params =
      CONTRACT_FUNCTION(cuGraphBatchMemOpNodeGetParams, kVersion);
  decltype(&::cuGraphBatchMemOpNodeSetParams) set_params =
      CONTRACT_FUNCTION(cuGraphBatchMemOpNodeSetParams, kVersion);
  decltype(&::cuGraphExecBatchMemOpNodeSetParams) set_exec_params =
      CONTRACT_FUNCTION(cuGraphExecBatchMemOpNodeSetParams, kVersion);
  decltype(&::cuStreamBatchMemOp) batch = CONTRACT_FUNCTION(cuStreamBatchMemOp, kVersion);
  decltype(&::cuStreamWriteValue32) write32 = CONTRACT_FUNCTION(cuStreamWriteValue32, kVersion);

  CUstream stream;
  cuuint32_t* words = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
};

}  // namespace

// cuGraphAddBatchMemOpNode: "the paramArray inside nodeParams is copied and therefore it can be
// freed after the call returns"; the getter returns the parameters.
TEST_CASE_FIXTURE(BatchNodeFixture, "a node of operations runs them in their order") {
  if (!available) return;
  std::array operations{write_of(address(0), 1), wait_of(address(0), 1), write_of(address(1), 5)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS given = params(operations);
  REQUIRE(add_batch(&node, graph, nullptr, 0, &given) == CUDA_SUCCESS);
  operations = {};
  CHECK(type(node) == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  CHECK(get_params(node, &told) == CUDA_SUCCESS);
  REQUIRE(told.count == 3);
  CHECK(told.ctx == context);
  CHECK(told.paramArray[2].writeValue.address == address(1));
  driver.graph_instantiate(&exec, graph, 0ULL);
  for (const int again : {1, 2}) {
    CAPTURE(again);
    set(1, 0);
    driver.graph_launch(exec, stream);
    driver.stream_synchronize(stream);
    CHECK(get(0) == 1);
    CHECK(get(1) == 5);
  }
}

TEST_CASE_FIXTURE(BatchNodeFixture,
                  "a node waits for a value, and what follows waits for the node") {
  if (!available) return;
  std::array waits{wait_of(address(0), 1)};
  std::array writes{write_of(address(1), 6)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS given = params(waits);
  CUgraphNode second = nullptr;
  REQUIRE(add_batch(&node, graph, nullptr, 0, &given) == CUDA_SUCCESS);
  given = params(writes);
  REQUIRE(add_batch(&second, graph, &node, 1, &given) == CUDA_SUCCESS);
  driver.graph_instantiate(&exec, graph, 0ULL);
  driver.graph_launch(exec, stream);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  CHECK(get(1) == 0);
  set(0, 1);
  driver.stream_synchronize(stream);
  CHECK(get(1) == 6);
}

// cuStreamBatchMemOp in a capture is one node, as each of cuStreamWriteValue32 is.
TEST_CASE_FIXTURE(BatchNodeFixture, "a capture records operations as nodes") {
  if (!available) return;
  begin(stream);
  std::array operations{write_of(address(0), 2), write_of(address(1), 3)};
  CHECK(batch(stream, 2, operations.data(), 0) == CUDA_SUCCESS);
  CHECK(write32(stream, address(2), 4, 0) == CUDA_SUCCESS);
  const CUgraph captured = end(stream);
  const std::vector<CUgraphNode> all = nodes(captured);
  REQUIRE(all.size() == 2);
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  CHECK(get_params(all[0], &told) == CUDA_SUCCESS);
  CHECK(told.count == 2);
  exec = make_executable(captured);
  CHECK(get(0) == 0);
  driver.graph_launch(exec, stream);
  driver.stream_synchronize(stream);
  CHECK(get(0) == 2);
  CHECK(get(1) == 3);
  CHECK(get(2) == 4);
}

// cuGraphExecBatchMemOpNodeSetParams: "The modifications only affect future launches"; "hNode is
// also not modified"; "the context, count or type of operations ... may not be modified".
TEST_CASE_FIXTURE(BatchNodeFixture, "a node's operations change before it runs again") {
  if (!available) return;
  std::array first{write_of(address(0), 1)};
  std::array second{write_of(address(1), 2)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS given = params(first);
  REQUIRE(add_batch(&node, graph, nullptr, 0, &given) == CUDA_SUCCESS);
  driver.graph_instantiate(&exec, graph, 0ULL);
  given = params(second);
  CHECK(set_exec_params(exec, node, &given) == CUDA_SUCCESS);
  CUDA_BATCH_MEM_OP_NODE_PARAMS told{};
  CHECK(get_params(node, &told) == CUDA_SUCCESS);
  CHECK(told.paramArray[0].writeValue.address == address(0));
  driver.graph_launch(exec, stream);
  driver.stream_synchronize(stream);
  CHECK(get(0) == 0);
  CHECK(get(1) == 2);
  std::array waits{wait_of(address(0), 0)};
  given = params(waits);
  CHECK(set_exec_params(exec, node, &given) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set_params(node, &given) == CUDA_SUCCESS);
  given.count = 0;
  CHECK(set_params(node, &given) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add_batch(&node, graph, nullptr, 0, &given) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace batch_node_contract_test
