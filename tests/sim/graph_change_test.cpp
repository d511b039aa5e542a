// SPDX-License-Identifier: Apache-2.0
// Invalid or partly failing changes of graphs and executable graphs: nothing is changed.
#include <string>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace graph_change_test {

using namespace berth;
using namespace berth::test;

namespace {

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

/// Writes of values to the words from `memory` on.
struct Writes {
  Writes(CUdeviceptr memory, unsigned count) : operations(count) {
    for (unsigned i = 0; i < count; ++i) {
      operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      operations[i].writeValue.address = memory + 4 * i;
      operations[i].writeValue.value = i + 1;
    }
    OK(CU(cuCtxGetCurrent)(&params.ctx));
    params.count = count;
    params.paramArray = operations.data();
  }
  Writes(const Writes&) = delete;
  Writes& operator=(const Writes&) = delete;

  std::vector<CUstreamBatchMemOpParams> operations;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
};

CUgraphNode add_writes(CUgraph graph, const Writes& writes, std::vector<CUgraphNode> after = {}) {
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddBatchMemOpNode)(&node, graph, after.data(), after.size(), &writes.params));
  return node;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture,
                  "a node of two operations cannot update two nodes of one operation each") {
  const CUdeviceptr memory = make_memory(16);
  const Writes one(memory, 1);
  const Writes two(memory, 2);
  const CUgraph apart = make_graph();
  const CUgraphNode first = add_writes(apart, one);
  const CUgraphNode second = add_writes(apart, one, {first});
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, apart, 0));
  const CUgraph together = make_graph();
  add_writes(together, two);
  CUgraphExecUpdateResultInfo info{};
  CHECK(CU(cuGraphExecUpdate)(exec, together, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, second, &two.params) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, second, &one.params));
  OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuGraphDestroy)(apart));
  OK(CU(cuGraphDestroy)(together));
}

TEST_CASE_FIXTURE(EagerFixture,
                  "an update with a child graph of other edges is refused, at any position") {
  const CUgraph child = make_graph();
  add_empty(child);
  add_empty(child);
  const CUgraph graph = make_graph();
  CUgraphNode last = add_empty(graph);
  for (int count = 0; count < 2; ++count) last = add_empty(graph, {last});
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddChildGraphNode)(&node, graph, &last, 1, child));
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  const CUgraph chained = make_graph();
  add_empty(chained, {add_empty(chained)});
  CHECK(CU(cuGraphExecChildGraphNodeSetParams)(exec, node, chained) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphExecChildGraphNodeSetParams)(exec, node, child));
  OK(CU(cuGraphExecDestroy)(exec));
  for (const CUgraph each : {graph, child, chained}) OK(CU(cuGraphDestroy)(each));
}

TEST_CASE_FIXTURE(EagerFixture, "a failed removal keeps the edges in their order") {
  const CUgraph graph = make_graph();
  const CUgraphNode a = add_empty(graph);
  const CUgraphNode b = add_empty(graph);
  const CUgraphNode stranger = add_empty(graph);
  const CUgraphNode end = add_empty(graph, {a, b});
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  const CUgraphNode from[] = {a, stranger};
  const CUgraphNode to[] = {end, end};
  CHECK(CU(cuGraphRemoveDependencies)(graph, from, to, nullptr, 2) == CUDA_ERROR_INVALID_VALUE);
  CUgraphExecUpdateResultInfo info{};
  OK(CU(cuGraphExecUpdate)(exec, graph, &info));
  OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuGraphDestroy)(graph));
}

TEST_CASE_FIXTURE(EagerFixture, "a disabled node may use freed memory") {
  unsigned char* const source = make_pinned(16);
  const CUdeviceptr memory = make_memory(16);
  const CUgraph graph = capture([&](CUstream stream) {
    OK(CU(cuMemcpyAsync)(memory, reinterpret_cast<CUdeviceptr>(source), 16, stream));
  });
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  const CUgraphNode node = nodes_of(graph).front();
  OK(CU(cuMemFreeHost)(source));
  const CUstream stream = make_stream();
  OK(CU(cuGraphNodeSetEnabled)(exec, node, 0));
  OK(CU(cuGraphLaunch)(exec, stream));
  OK(CU(cuStreamSynchronize)(stream));
  for (const std::string& finding : sim.take_findings())
    CHECK(finding.find("launches executable graph") == std::string::npos);
  OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuGraphDestroy)(graph));
}

TEST_CASE_FIXTURE(EagerFixture, "a volume copy with one invalid slice copies nothing") {
  const CUdeviceptr from = make_memory(2048);
  const CUdeviceptr to = make_memory(512);
  OK(CU(cuMemsetD8)(from, 9, 2048));
  OK(CU(cuMemsetD8)(to, 1, 512));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = 64;
  copy.srcHeight = 4;
  copy.dstHeight = copy.Height = 2;
  copy.Depth = 5;  // the target ends behind four slices
  const CUstream stream = make_stream();
  CHECK(CU(cuMemcpy3D)(&copy) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemcpy3DAsync)(&copy, stream) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(to, 512) == bytes_of(512, 1));
}

}  // namespace graph_change_test
