// SPDX-License-Identifier: Apache-2.0
// Nodes of kernels that a program adds to a graph, and those that it captures.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph_fixture.hpp"

namespace kernel_node_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kPtx =
    ".version 8.0\n.target sm_80\n.visible .entry fill(.param .u64 to, .param .u32 value)\n"
    "{ ret; }\n";

sim::Kernel fill_stand_in(const sim::KernelLaunch& launch) {
  const auto memory = launch.argument<CUdeviceptr>(0);
  const auto value = launch.argument<std::uint32_t>(1);
  return {.duration_ns = 100,
          .uses = {{memory, 16, true}},
          .compute = [value](sim::KernelMemory ranges) {
            for (std::byte& byte : ranges[0]) byte = std::byte(value);
          }};
}

struct KernelNodeFixture : SimFixture {
  explicit KernelNodeFixture(const std::string& kernels)
      : SimFixture("memory=64MiB,kernels=" + kernels) {
    OK(CU(cuModuleLoadData)(&module, kPtx));
    OK(CU(cuModuleGetFunction)(&fill, module, "fill"));
    OK(CU(cuGraphCreate)(&graph, 0));
    memory = make_memory(16);
    sim::Simulator::stand_in_for("fill", fill_stand_in);
  }
  ~KernelNodeFixture() { sim::Simulator::stand_in_for("fill", nullptr); }

  /// A launch that fills `memory` with `value`, which the result refers to.
  CUDA_KERNEL_NODE_PARAMS params(std::uint32_t& value) {
    arguments[0] = &memory;
    arguments[1] = &value;
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = fill;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    return params;
  }
  CUgraphNode add(std::uint32_t value) {
    CUgraphNode node = nullptr;
    const CUDA_KERNEL_NODE_PARAMS kernel = params(value);
    OK(CU(cuGraphAddKernelNode)(&node, graph, nullptr, 0, &kernel));
    return node;
  }
  std::vector<unsigned char> run(CUgraphExec exec) {
    OK(CU(cuGraphLaunch)(exec, nullptr));
    OK(CU(cuCtxSynchronize)());
    return sim.peek(memory, 16);
  }

  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr memory = 0;
  void* arguments[2] = {};
};

}  // namespace

TEST_CASE("a graph runs the stand-in with the arguments of its node, which can change") {
  KernelNodeFixture fixture("host");
  const CUgraphNode node = fixture.add(3);
  CUgraphNodeType type{};
  OK(CU(cuGraphNodeGetType)(node, &type));
  CHECK(type == CU_GRAPH_NODE_TYPE_KERNEL);
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, fixture.graph, 0));
  CHECK(fixture.run(exec) == bytes_of(16, 3));
  std::uint32_t value = 5;
  const CUDA_KERNEL_NODE_PARAMS other = fixture.params(value);
  OK(CU(cuGraphExecKernelNodeSetParams)(exec, node, &other));
  CHECK(fixture.run(exec) == bytes_of(16, 5));
  value = 6;
  OK(CU(cuGraphKernelNodeSetParams)(node, &other));
  CHECK(fixture.run(exec) == bytes_of(16, 5));
  CHECK(fixture.run(make_executable(fixture.graph)) == bytes_of(16, 6));
}

TEST_CASE("the parameters of a node are those it was made with, arguments included") {
  for (const char* kernels : {"skip", "host"}) {
    CAPTURE(std::string(kernels));
    KernelNodeFixture fixture(kernels);
    std::uint32_t value = 7;
    const CUDA_KERNEL_NODE_PARAMS given = fixture.params(value);
    const CUgraph captured = capture([&](CUstream stream) {
      OK(CU(cuLaunchKernel)(fixture.fill, 1, 1, 1, 32, 1, 1, 0, stream, given.kernelParams,
                            nullptr));
    });
    CUgraphNode of_capture = nullptr;
    std::size_t count = 1;
    OK(CU(cuGraphGetNodes)(captured, &of_capture, &count));
    const CUgraphNode added = fixture.add(7);
    value = 9;  // the node has its own
    for (const CUgraphNode node : {added, of_capture}) {
      CUDA_KERNEL_NODE_PARAMS told{};
      OK(CU(cuGraphKernelNodeGetParams)(node, &told));
      CHECK(told.func == fixture.fill);
      CHECK(told.blockDimX == 32);
      REQUIRE(told.kernelParams != nullptr);
      CHECK(*static_cast<std::uint32_t*>(told.kernelParams[1]) == 7);
      CHECK(*static_cast<CUdeviceptr*>(told.kernelParams[0]) == fixture.memory);
      told.gridDimX = 2;
      OK(CU(cuGraphKernelNodeSetParams)(node, &told));
      CUDA_KERNEL_NODE_PARAMS changed{};
      OK(CU(cuGraphKernelNodeGetParams)(node, &changed));
      CHECK(changed.gridDimX == 2);
      CHECK(*static_cast<std::uint32_t*>(changed.kernelParams[1]) == 7);
    }
  }
}

TEST_CASE("a node of a kernel is refused as a launch is") {
  KernelNodeFixture refusing("refuse");
  std::uint32_t value = 1;
  CUgraphNode node = nullptr;
  const CUDA_KERNEL_NODE_PARAMS kernel = refusing.params(value);
  CHECK(CU(cuGraphAddKernelNode)(&node, refusing.graph, nullptr, 0, &kernel) ==
        CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("invalid parameters of a kernel node, and nodes of other kinds, are refused") {
  KernelNodeFixture fixture("skip");
  std::uint32_t value = 1;
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS kernel = fixture.params(value);
  CHECK(CU(cuGraphAddKernelNode)(&node, fixture.graph, nullptr, 0, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  kernel.blockDimX = 0;
  CHECK(CU(cuGraphAddKernelNode)(&node, fixture.graph, nullptr, 0, &kernel) ==
        CUDA_ERROR_INVALID_VALUE);
  kernel = fixture.params(value);
  kernel.func = nullptr;
  CHECK(CU(cuGraphAddKernelNode)(&node, fixture.graph, nullptr, 0, &kernel) ==
        CUDA_ERROR_INVALID_VALUE);
  CUgraphNode empty = nullptr;
  OK(CU(cuGraphAddEmptyNode)(&empty, fixture.graph, nullptr, 0));
  kernel = fixture.params(value);
  CHECK(CU(cuGraphKernelNodeSetParams)(empty, &kernel) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphKernelNodeGetParams)(empty, &kernel) == CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams generic{};
  generic.type = CU_GRAPH_NODE_TYPE_KERNEL;
  generic.kernel.func = fixture.fill;
  generic.kernel.gridDimX = generic.kernel.gridDimY = generic.kernel.gridDimZ = 1;
  generic.kernel.blockDimX = generic.kernel.blockDimY = generic.kernel.blockDimZ = 1;
  OK(CU(cuGraphAddNode)(&node, fixture.graph, nullptr, nullptr, 0, &generic));
  generic.kernel.gridDimX = 4;
  OK(CU(cuGraphNodeSetParams)(node, &generic));
  CUDA_KERNEL_NODE_PARAMS told{};
  OK(CU(cuGraphKernelNodeGetParams)(node, &told));
  CHECK(told.gridDimX == 4);
}

TEST_CASE("attributes of a kernel node are checked, and copied within a context only") {
  KernelNodeFixture fixture("skip");
  const CUgraphNode node = fixture.add(1);
  CUlaunchAttributeValue value{};
  const auto set = [&](CUlaunchAttributeID attribute) {
    return CU(cuGraphKernelNodeSetAttribute)(node, attribute, &value);
  };
  value.accessPolicyWindow.num_bytes = std::size_t{1} << 40;
  CHECK(set(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) == CUDA_ERROR_INVALID_VALUE);
  value.accessPolicyWindow.num_bytes = 64;
  CHECK(set(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) == CUDA_SUCCESS);
  CUgraphNode in_clone = nullptr;
  CUgraph clone = nullptr;
  OK(CU(cuGraphClone)(&clone, fixture.graph));
  OK(CU(cuGraphNodeFindInClone)(&in_clone, node, clone));
  value = {};
  OK(CU(cuGraphKernelNodeGetAttribute)(in_clone, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
  CHECK(value.accessPolicyWindow.num_bytes == 64);

  CUcontext other = nullptr;
  OK(CU(cuCtxCreate)(&other, nullptr, 0, 0));
  OK(CU(cuModuleLoadData)(&fixture.module, kPtx));
  OK(CU(cuModuleGetFunction)(&fixture.fill, fixture.module, "fill"));
  const CUgraphNode far = fixture.add(1);
  CHECK(CU(cuGraphKernelNodeCopyAttributes)(far, node) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuGraphKernelNodeCopyAttributes)(in_clone, node) == CUDA_SUCCESS);
  OK(CU(cuCtxDestroy)(other));
}

}  // namespace kernel_node_test
