// SPDX-License-Identifier: Apache-2.0
// Nodes that a program adds to a graph, and their parameters.
#include "cudart/cudart_fixture.hpp"

extern "C" {
// As nvcc's host code calls them.
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterVar(void** handle, char* host, char* device_address, const char* device_name,
                       int is_extern, std::size_t bytes, int is_constant, int is_global);
void __cudaUnregisterFatBinary(void** handle);
}

namespace cudart_graph_node_test {

using namespace berth::test;

namespace {

#if BERTH_CUDART_MAJOR == 12
extern "C" {
berth::cudart::older_abi::GraphAddNode12 add_node_12 __asm__("cudaGraphAddNode");
}
#endif

struct Nodes : EagerRuntime {
  Nodes() { OK(cudaGraphCreate(&graph, 0)); }
  ~Nodes() {
    cudaGraphDestroy(graph);
    cudaGetLastError();
  }

  [[nodiscard]] cudaMemsetParams fill_of(unsigned value) const {
    cudaMemsetParams fill{};
    fill.dst = memory;
    fill.value = value;
    fill.elementSize = 1;
    fill.width = 64;
    fill.height = 1;
    return fill;
  }
  [[nodiscard]] cudaMemcpy3DParms copy_of(void* to, void* from, cudaMemcpyKind kind) const {
    cudaMemcpy3DParms copy{};
    copy.srcPtr = {from, 64, 64, 1};
    copy.dstPtr = {to, 64, 64, 1};
    copy.extent = {64, 1, 1};
    copy.kind = kind;
    return copy;
  }
  void launch(cudaGraphExec_t exec) const {
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
  }

  cudaStream_t stream = make_stream();
  unsigned char* memory = make_memory(64);
  unsigned char* host = make_pinned(64);
  cudaGraph_t graph = nullptr;
};

}  // namespace

TEST_CASE_FIXTURE(Nodes, "parameters of copy and fill nodes can be queried") {
  cudaGraphNode_t fill = nullptr;
  cudaGraphNode_t copy = nullptr;
  const cudaMemsetParams filled = fill_of(7);
  cudaMemcpy3DParms copied = copy_of(host, memory, cudaMemcpyDeviceToHost);
  OK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &filled));
  OK(cudaGraphAddMemcpyNode(&copy, graph, &fill, 1, &copied));
  cudaMemcpy3DParms got{};
  OK(cudaGraphMemcpyNodeGetParams(copy, &got));
  CHECK(got.srcPtr.ptr == memory);
  CHECK(got.dstPtr.ptr == host);
  CHECK(got.kind == cudaMemcpyDeviceToHost);
  CHECK(got.extent.width == 64);
  cudaMemsetParams told{};
  OK(cudaGraphMemsetNodeGetParams(fill, &told));
  CHECK(told.dst == memory);
  CHECK(told.value == 7);
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[63] == 7);
  const cudaMemsetParams other = fill_of(8);
  OK(cudaGraphExecMemsetNodeSetParams(exec, fill, &other));
  launch(exec);
  CHECK(host[63] == 8);
  OK(cudaGraphNodeSetEnabled(exec, copy, 0));
  host[63] = 0;
  launch(exec);
  CHECK(host[63] == 0);
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, host, memory, 32, cudaMemcpyDeviceToHost));
  OK(cudaGraphNodeSetEnabled(exec, copy, 1));
  host[31] = 0;
  launch(exec);
  CHECK(host[31] == 8);
  CHECK(host[63] == 0);
  OK(cudaGraphExecDestroy(exec));
}

TEST_CASE_FIXTURE(Nodes, "a copy node with an invalid kind or an array is refused") {
  cudaGraphNode_t node = nullptr;
  cudaMemcpy3DParms copy = copy_of(host, memory, static_cast<cudaMemcpyKind>(7));
  CHECK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy) == cudaErrorInvalidMemcpyDirection);
  copy = copy_of(host, memory, cudaMemcpyDeviceToHost);
  copy.srcArray = reinterpret_cast<cudaArray_t>(host);
  CHECK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy) == cudaErrorNotSupported);
  CHECK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(Nodes, "nodes are added by generic parameters, allocations included") {
  cudaGraphNode_t allocation = nullptr;
  cudaGraphNode_t fill = nullptr;
  cudaGraphNode_t copy = nullptr;
  cudaGraphNode_t end = nullptr;
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeMemAlloc;
  params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  params.alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
  params.alloc.bytesize = 64;
  OK(add_node(&allocation, graph, nullptr, nullptr, 0, &params));
  void* const own = params.alloc.dptr;
  REQUIRE(own != nullptr);
  params = {};
  params.type = cudaGraphNodeTypeMemset;
  params.memset.dst = own;
  params.memset.value = 5;
  params.memset.elementSize = 1;
  params.memset.width = 64;
  params.memset.height = 1;
#if BERTH_CUDART_MAJOR == 12
  OK(add_node_12(&fill, graph, &allocation, 1, &params));
#else
  OK(add_node(&fill, graph, &allocation, nullptr, 1, &params));
#endif
  params = {};
  params.type = cudaGraphNodeTypeMemcpy;
  params.memcpy.copyParams = copy_of(host, own, cudaMemcpyDeviceToHost);
  OK(add_node(&copy, graph, &fill, nullptr, 1, &params));
  OK(cudaGraphAddMemFreeNode(&end, graph, &copy, 1, own));
  cudaMemAllocNodeParams told{};
  OK(cudaGraphMemAllocNodeGetParams(allocation, &told));
  CHECK(told.dptr == own);
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(host[63] == 5);
  OK(cudaGraphExecDestroy(exec));
  params.type = cudaGraphNodeTypeConditional;
  CHECK(add_node(&end, graph, nullptr, nullptr, 0, &params) == cudaErrorNotSupported);
  params.type = cudaGraphNodeTypeEmpty;
  params.reserved2 = 1;
  CHECK(add_node(&end, graph, nullptr, nullptr, 0, &params) == cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(Nodes, "copy nodes copy to and from device variables") {
  static char variable;
  void** const binary = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterVar(binary, &variable, nullptr, "variable", 0, 64, 0, 0);
  cudaGraphNode_t to = nullptr;
  cudaGraphNode_t from = nullptr;
  unsigned char* const back = make_pinned(64);
  host[8] = 3;
  OK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, nullptr, 0, &variable, host, 32, 32,
                                    cudaMemcpyHostToDevice));
  OK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &to, 1, back, &variable, 64, 0,
                                      cudaMemcpyDeviceToHost));
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec);
  CHECK(back[40] == 3);
  OK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, to, &variable, host, 32, 0,
                                              cudaMemcpyHostToDevice));
  launch(exec);
  CHECK(back[8] == 3);
  CHECK(cudaGraphMemcpyNodeSetParamsToSymbol(to, &variable, host, 32, 33, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaGraphMemcpyNodeSetParamsFromSymbol(from, back, &variable, 64, 0,
                                               cudaMemcpyHostToDevice) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(
            exec, from, back, host, 64, 0, cudaMemcpyDeviceToHost) == cudaErrorInvalidSymbol);
  OK(cudaGraphExecDestroy(exec));
  __cudaUnregisterFatBinary(binary);
}

TEST_CASE_FIXTURE(Nodes, "a device variable may be used first in a capture") {
  static char variable;
  void** const binary = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterVar(binary, &variable, nullptr, "variable", 0, 64, 0, 0);
  cudaGraph_t captured = nullptr;
  cudaGraphExec_t exec = nullptr;
  host[63] = 9;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMemcpyToSymbolAsync(&variable, host, 64, 0, cudaMemcpyHostToDevice, stream));
  OK(cudaMemcpyFromSymbolAsync(memory, &variable, 64, 0, cudaMemcpyDeviceToDevice, stream));
  OK(cudaStreamEndCapture(stream, &captured));
  OK(cudaGraphInstantiate(&exec, captured, 0));
  launch(exec);
  CHECK(read_back(memory, 64).back() == 9);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(captured));
  __cudaUnregisterFatBinary(binary);
}

TEST_CASE_FIXTURE(Nodes, "attributes and limits are kept") {
  cudaStreamAttrValue value{};
  value.syncPolicy = cudaSyncPolicySpin;
  OK(cudaStreamSetAttribute(stream, cudaLaunchAttributeSynchronizationPolicy, &value));
  const cudaStream_t other = make_stream();
  OK(cudaStreamCopyAttributes(other, stream));
  value = {};
  OK(cudaStreamGetAttribute(other, cudaLaunchAttributeSynchronizationPolicy, &value));
  CHECK(value.syncPolicy == cudaSyncPolicySpin);
  std::size_t limit = 0;
  OK(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  OK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  CHECK(limit == 2048);
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitDevRuntimeSyncDepth) == cudaErrorUnsupportedLimit);
  OK(cudaCtxResetPersistingL2Cache());
}

}  // namespace cudart_graph_node_test
