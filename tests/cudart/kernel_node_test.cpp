// SPDX-License-Identifier: Apache-2.0
// Nodes of kernels that a program adds to a graph, with each value of kernels=.
#include <string>

#include "cudart/registered_kernel.hpp"

namespace cudart_kernel_node_test {

using namespace berth::test;

namespace {

/// void fill(unsigned char* to, unsigned value), as nvcc registers it.
struct KernelNodes : RegisteredKernel {
  explicit KernelNodes(const char* kernels) : RegisteredKernel(kernels) {
    OK(cudaGraphCreate(&graph, 0));
  }
  ~KernelNodes() { cudaGraphDestroy(graph); }

  /// A launch that fills `memory` with `value`, to which the result refers.
  cudaKernelNodeParams params(unsigned& value) {
    arguments[1] = &value;
    cudaKernelNodeParams kernel{};
    kernel.func = const_cast<char*>(&fill_stub);
    kernel.gridDim = {1, 1, 1};
    kernel.blockDim = {8, 1, 1};
    kernel.kernelParams = arguments;
    return kernel;
  }
  /// Behind `earlier`, if there is one.
  cudaGraphNode_t add(unsigned value, cudaGraphNode_t earlier = nullptr) {
    cudaGraphNode_t node = nullptr;
    const cudaKernelNodeParams kernel = params(value);
    OK(cudaGraphAddKernelNode(&node, graph, &earlier, earlier == nullptr ? 0 : 1, &kernel));
    return node;
  }
  cudaGraphExec_t instantiate() {
    cudaGraphExec_t exec = nullptr;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
  }
  Bytes run(cudaGraphExec_t exec) {
    OK(cudaGraphLaunch(exec, nullptr));
    OK(cudaDeviceSynchronize());
    return read_back(memory, 8);
  }

  cudaGraph_t graph = nullptr;
  unsigned char* memory = make_memory(8);
  void* arguments[2] = {&memory, nullptr};
};

}  // namespace

TEST_CASE("a graph runs the stand-in with the arguments of its node, which can change") {
  KernelNodes nodes("host");
  nodes.stand_in();
  const cudaGraphNode_t node = nodes.add(3);
  const cudaGraphExec_t exec = nodes.instantiate();
  CHECK(nodes.run(exec) == Bytes(8, 3));
  unsigned value = 5;
  const cudaKernelNodeParams other = nodes.params(value);
  OK(cudaGraphExecKernelNodeSetParams(exec, node, &other));
  CHECK(nodes.run(exec) == Bytes(8, 5));
  value = 6;
  OK(cudaGraphKernelNodeSetParams(node, &other));
  CHECK(nodes.run(exec) == Bytes(8, 5));
  CHECK(nodes.run(nodes.instantiate()) == Bytes(8, 6));
}

TEST_CASE("generic parameters of a kernel add and change nodes") {
  KernelNodes nodes("host");
  nodes.stand_in();
  unsigned value = 3;
  const cudaKernelNodeParams kernel = nodes.params(value);
  cudaGraphNodeParams generic{};
  generic.type = cudaGraphNodeTypeKernel;
  generic.kernel.func = kernel.func;
  generic.kernel.gridDim = kernel.gridDim;
  generic.kernel.blockDim = kernel.blockDim;
  generic.kernel.kernelParams = kernel.kernelParams;
  cudaGraphNode_t node = nullptr;
  OK(add_node(&node, nodes.graph, nullptr, nullptr, 0, &generic));
  const cudaGraphExec_t exec = nodes.instantiate();
  CHECK(nodes.run(exec) == Bytes(8, 3));
  value = 4;
  OK(cudaGraphExecNodeSetParams(exec, node, &generic));
  CHECK(nodes.run(exec) == Bytes(8, 4));
  value = 5;
  OK(cudaGraphNodeSetParams(node, &generic));
  CHECK(nodes.run(nodes.instantiate()) == Bytes(8, 5));
  generic.kernel.func = &nodes;
  CHECK(cudaGraphNodeSetParams(node, &generic) == cudaErrorInvalidDeviceFunction);
}

TEST_CASE("two kernel nodes that no edge orders race for their memory") {
  for (const bool are_ordered : {false, true}) {
    CAPTURE(are_ordered);
    KernelNodes nodes("host");
    nodes.stand_in();
    const cudaGraphNode_t first = nodes.add(1);
    nodes.add(2, are_ordered ? first : nullptr);
    nodes.run(nodes.instantiate());
    const auto findings = nodes.sim.take_findings();
    REQUIRE(findings.size() == (are_ordered ? 0 : 1));
    if (are_ordered) continue;
    CHECK(findings[0].starts_with("race: "));
    CHECK(findings[0].find("fill") != std::string::npos);
  }
}

TEST_CASE("the parameters of a node name the host function, of a captured launch too") {
  KernelNodes nodes("skip");
  const cudaStream_t stream = make_stream();
  cudaGraph_t captured = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaLaunchKernel(&fill_stub, {1, 1, 1}, {8, 1, 1}, nullptr, 0, stream));
  OK(cudaStreamEndCapture(stream, &captured));
  cudaGraphNode_t of_capture = nullptr;
  std::size_t count = 1;
  OK(cudaGraphGetNodes(captured, &of_capture, &count));
  for (const cudaGraphNode_t node : {nodes.add(1), of_capture}) {
    cudaKernelNodeParams told{};
    OK(cudaGraphKernelNodeGetParams(node, &told));
    CHECK(told.func == &fill_stub);
    CHECK(told.gridDim.x == 1);
    CHECK(told.blockDim.x == 8);
    told.gridDim.x = 2;
    OK(cudaGraphKernelNodeSetParams(node, &told));
    OK(cudaGraphKernelNodeGetParams(node, &told));
    CHECK(told.gridDim.x == 2);
  }
  OK(cudaGraphDestroy(captured));
}

TEST_CASE("a kernel of a library is a node by its handle, with the arguments that PTX declares") {
  KernelNodes nodes("host");
  constexpr const char* ptx =
      ".version 8.0\n.target sm_80\n.entry _Z4fillPhj(.param .u64 to, .param .u32 value) { ret; "
      "}\n";
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  OK(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cudaLibraryGetKernel(&kernel, library, "_Z4fillPhj"));
  nodes.stand_in();
  unsigned value = 7;
  cudaKernelNodeParams given = nodes.params(value);
  given.func = kernel;
  cudaGraphNode_t node = nullptr;
  OK(cudaGraphAddKernelNode(&node, nodes.graph, nullptr, 0, &given));
  cudaKernelNodeParams told{};
  OK(cudaGraphKernelNodeGetParams(node, &told));
  CHECK(told.func == kernel);
  given.gridDim.x = 0;
  CHECK(cudaGraphKernelNodeSetParams(node, &given) == cudaErrorInvalidValue);
  value = 8;  // the node has its own
  CHECK(*static_cast<unsigned*>(told.kernelParams[1]) == 7);
  CHECK(nodes.run(nodes.instantiate()) == Bytes(8, 7));
  OK(cudaLibraryUnload(library));
}

TEST_CASE("without device code, the arguments of a registered kernel are not known") {
  KernelNodes nodes("host");
  nodes.stand_in();
  cudaKernelNodeParams told{};
  CHECK(cudaGraphKernelNodeGetParams(nodes.add(1), &told) == cudaErrorNotSupported);
}

TEST_CASE("a kernel node is refused where launches are") {
  KernelNodes nodes("refuse");
  unsigned value = 1;
  cudaGraphNode_t node = nullptr;
  const cudaKernelNodeParams kernel = nodes.params(value);
  CHECK(cudaGraphAddKernelNode(&node, nodes.graph, nullptr, 0, &kernel) == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  std::size_t count = 0;
  OK(cudaGraphGetNodes(nodes.graph, nullptr, &count));
  CHECK(count == 0);
}

TEST_CASE("invalid arguments of kernel nodes are refused") {
  KernelNodes nodes("skip");
  unsigned value = 1;
  const cudaGraphNode_t node = nodes.add(value);
  cudaGraphNode_t made = nullptr;
  cudaKernelNodeParams kernel = nodes.params(value);
  CHECK(cudaGraphAddKernelNode(nullptr, nodes.graph, nullptr, 0, &kernel) == cudaErrorInvalidValue);
  CHECK(cudaGraphAddKernelNode(&made, nullptr, nullptr, 0, &kernel) == cudaErrorInvalidValue);
  CHECK(cudaGraphAddKernelNode(&made, nodes.graph, nullptr, 0, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeGetParams(nullptr, &kernel) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeGetParams(node, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeSetParams(nullptr, &kernel) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeSetParams(node, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphExecKernelNodeSetParams(nullptr, node, &kernel) == cudaErrorInvalidValue);
  cudaGraph_t other = nullptr;
  OK(cudaGraphCreate(&other, 0));
  CHECK(cudaGraphAddKernelNode(&made, other, &node, 1, &kernel) == cudaErrorInvalidValue);
  cudaGraphExec_t exec = nullptr;
  OK(cudaGraphInstantiate(&exec, other, 0));
  CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &kernel) == cudaErrorInvalidValue);
  cudaGraphNode_t empty = nullptr;
  OK(cudaGraphAddEmptyNode(&empty, other, nullptr, 0));
  CHECK(cudaGraphKernelNodeSetParams(empty, &kernel) == cudaErrorInvalidValue);
  OK(cudaGraphDestroy(other));
  kernel.gridDim.x = 0;
  CHECK(cudaGraphAddKernelNode(&made, nodes.graph, nullptr, 0, &kernel) == cudaErrorInvalidValue);
  kernel = nodes.params(value);
  kernel.func = &nodes;
  CHECK(cudaGraphAddKernelNode(&made, nodes.graph, nullptr, 0, &kernel) ==
        cudaErrorInvalidDeviceFunction);
  kernel.func = nullptr;
  CHECK(cudaGraphKernelNodeSetParams(node, &kernel) == cudaErrorInvalidDeviceFunction);
}

TEST_CASE("attributes of kernel nodes are kept, copied, and those of captured launches") {
  KernelNodes nodes("skip");
  const cudaGraphNode_t node = nodes.add(1);
  const cudaGraphNode_t other = nodes.add(2);
  cudaLaunchAttributeValue value{};
  OK(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &value));
  CHECK(value.priority == 0);
  value.priority = -100;
  OK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value));
  OK(cudaGraphKernelNodeCopyAttributes(other, node));
  value = {};
  OK(cudaGraphKernelNodeGetAttribute(other, cudaLaunchAttributePriority, &value));
  int least = 0;
  int greatest = 0;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(value.priority == greatest);
  constexpr auto window = cudaLaunchAttributeAccessPolicyWindow;
  value = {};
  value.accessPolicyWindow.hitRatio = 2;
  CHECK(cudaGraphKernelNodeSetAttribute(node, window, &value) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeProgrammaticEvent, &value) ==
        cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeSetAttribute(nullptr, window, &value) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeGetAttribute(node, window, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGraphKernelNodeCopyAttributes(node, nullptr) == cudaErrorInvalidValue);

  const cudaStream_t stream = make_stream();
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = {1, 1, 1};
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaGraph_t captured = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaLaunchKernelExC(&config, &fill_stub, nullptr));
  OK(cudaStreamEndCapture(stream, &captured));
  cudaGraphNode_t of_capture = nullptr;
  std::size_t count = 1;
  OK(cudaGraphGetNodes(captured, &of_capture, &count));
  OK(cudaGraphKernelNodeGetAttribute(of_capture, cudaLaunchAttributeCooperative, &value));
  CHECK(value.cooperative == 1);
  OK(cudaGraphDestroy(captured));
}

}  // namespace cudart_kernel_node_test
