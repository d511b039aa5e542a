// SPDX-License-Identifier: Apache-2.0
// Memory that graphs own: races, leaks, faults, and the memory left on a device.
#include <string>

#include "sim/graph_fixture.hpp"
#include "sim/pool_fixture.hpp"

namespace graph_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1 << 20;

CUDA_MEM_ALLOC_NODE_PARAMS wanted(std::size_t bytes = kBytes, int device = 0) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps = pool_properties(device);
  params.bytesize = bytes;
  return params;
}

/// A graph that allocates, fills, and, if `frees`, frees.
struct Owner {
  explicit Owner(bool frees, std::size_t bytes = kBytes) {
    const CUstream stream = make_stream();
    begin_capture(stream);
    memory = allocate_async(bytes, stream);
    OK(CU(cuMemsetD8Async)(memory, 1, kBytes, stream));
    if (frees) OK(CU(cuMemFreeAsync)(memory, stream));
    exec = make_executable(end_capture(stream));
    OK(CU(cuStreamDestroy)(stream));
  }
  void launch(CUstream stream) const { OK(CU(cuGraphLaunch)(exec, stream)); }

  CUdeviceptr memory = 0;
  CUgraphExec exec = nullptr;
};

CUresult add_allocation(CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS params) {
  CUgraphNode node = nullptr;
  return CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params);
}

/// Whether this run of the case is the one with the order.
bool ask_order() {
  bool is_ordered = false;
  SUBCASE("with an order") {
    is_ordered = true;
  }
  SUBCASE("without") {}
  return is_ordered;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "host memory is freed beside graphs that allocate memory") {
  const Owner owner(true);
  OK(CU(cuMemFreeHost)(make_pinned(4096)));
  owner.launch(make_stream());
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(EagerFixture,
                  "another stream that uses a graph's memory must wait for the launch") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const Owner owner(false);
  owner.launch(first);
  const bool is_ordered = ask_order();
  if (is_ordered) order(first, second);
  fill(owner.memory, 2, second);
  OK(CU(cuCtxSynchronize)());
  CHECK(found_race(sim) == !is_ordered);
  OK(CU(cuMemFree)(owner.memory));
}

TEST_CASE_FIXTURE(EagerFixture, "a free on another stream must wait for the last use") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const Owner owner(false);
  owner.launch(first);
  const bool is_ordered = ask_order();
  if (is_ordered) order(first, second);
  OK(CU(cuMemFreeAsync)(owner.memory, second));
  OK(CU(cuCtxSynchronize)());
  CHECK(found_race(sim) == !is_ordered);
}

TEST_CASE_FIXTURE(ManualFixture, "a branch that does not wait for the allocation races with it") {
  const CUstream left = make_stream();
  const CUstream right = make_stream();
  begin_capture(left);
  order(left, right);
  const CUdeviceptr memory = allocate_async(kBytes, left);
  const bool is_ordered = ask_order();
  if (is_ordered) order(left, right);
  fill(memory, 1, right);
  order(right, left);
  const CUgraphExec exec = make_executable(end_capture(left));
  OK(CU(cuGraphLaunch)(exec, left));
  const CUresult result = CU(cuCtxSynchronize)();
  if (is_ordered) {
    CHECK(result == CUDA_SUCCESS);
    CHECK(sim.take_findings().empty());
    OK(CU(cuMemFree)(memory));
  } else {
    CHECK((found_race(sim) || result == CUDA_ERROR_ILLEGAL_ADDRESS));
  }
}

TEST_CASE_FIXTURE(EagerFixture, "launches one after the other use one allocation without a race") {
  const CUstream stream = make_stream();
  const Owner owner(true);
  for (int again = 0; again < 3; ++again) owner.launch(stream);
  const CUstream other = make_stream();
  owner.launch(other);  // launches of one executable graph are ordered
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.take_findings().empty());
  CHECK(sim.live().pool_allocations == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "work after the free faults") {
  const CUstream stream = make_stream();
  const Owner owner(true);
  owner.launch(stream);
  fill(owner.memory, 2, stream);
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "an executable graph that is destroyed while it runs keeps its memory") {
  const CUstream stream = make_stream();
  const Owner owner(true);
  owner.launch(stream);
  OK(CU(cuGraphExecDestroy)(owner.exec));
  CHECK(sim.device_bytes_used(0) == kGranule);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuStreamQuery)(stream));
  CHECK(sim.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "memory freed in stream order stays until the free has run") {
  const CUstream stream = make_stream();
  const Owner owner(false);
  owner.launch(stream);
  OK(CU(cuMemFreeAsync)(owner.memory, stream));
  OK(CU(cuGraphExecDestroy)(owner.exec));
  CHECK(sim.live().pool_allocations == 0);
  CHECK(sim.device_bytes_used(0) == kGranule);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuStreamQuery)(stream));
  CHECK(sim.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "memory that a graph leaves allocated is a leak when its context is destroyed") {
  const CUstream stream = make_stream();
  const Owner owner(false);
  owner.launch(stream);
  CHECK(sim.live().pool_allocations == 1);
  OK(CU(cuStreamDestroy)(stream));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(found_leak(sim, "1 graph allocation of 1048576 B"));
}

TEST_CASE_FIXTURE(EagerFixture, "memory that a graph frees itself is no leak") {
  const CUstream stream = make_stream();
  const Owner owner(true);
  owner.launch(stream);
  OK(CU(cuStreamDestroy)(stream));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(EagerFixture, "a launch that exceeds the device's memory changes nothing") {
  const CUstream stream = make_stream();
  const Owner small(false);
  const Owner large(false, (1 << 30) - kGranule);
  small.launch(stream);
  make_memory(kGranule);
  CHECK(CU(cuGraphLaunch)(large.exec, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(sim.device_bytes_used(0) == 2 * kGranule);
  CHECK(sim.live().pool_allocations == 1);
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  // Pages that another graph does not need any more are found.
  OK(CU(cuMemFree)(small.memory));
  CHECK(sim.device_bytes_used(0) == 2 * kGranule);
  CHECK(CU(cuGraphLaunch)(large.exec, stream) == CUDA_SUCCESS);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemFree)(large.memory));
}

TEST_CASE_FIXTURE(EagerFixture, "an upload gives allocations their pages") {
  const CUstream stream = make_stream();
  const Owner owner(false);
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(CU(cuGraphUpload)(owner.exec, stream) == CUDA_SUCCESS);
  CHECK(sim.device_bytes_used(0) == kGranule);
  OK(CU(cuDeviceGraphMemTrim)(0));
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(CU(cuGraphUpload)(nullptr, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphUpload)(owner.exec, reinterpret_cast<CUstream>(16)) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(EagerFixture, "a capture refuses a free of memory from outside, and continues") {
  const CUstream stream = make_stream();
  const CUdeviceptr pooled = allocate_async(kBytes, stream);
  begin_capture(stream);
  CHECK(CU(cuMemFreeAsync)(pooled, stream) == CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr memory = allocate_async(kBytes, stream);
  CHECK(CU(cuMemFreeAsync)(memory, stream) == CUDA_SUCCESS);
  CHECK(CU(cuMemFreeAsync)(memory, stream) == CUDA_ERROR_INVALID_VALUE);
  const CUgraph graph = end_capture(stream);
  CHECK(nodes_of(graph).size() == 2);
  OK(CU(cuGraphDestroy)(graph));
  OK(CU(cuMemFreeAsync)(pooled, stream));
}

TEST_CASE_FIXTURE(EagerFixture, "memory of a graph is open to the devices that its node names") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CUmemAccessDesc access = access_for(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CUDA_MEM_ALLOC_NODE_PARAMS params = wanted();
  params.accessDescs = &access;
  params.accessDescCount = 1;
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params));
  CUDA_MEM_ALLOC_NODE_PARAMS told{};
  OK(CU(cuGraphMemAllocNodeGetParams)(node, &told));
  REQUIRE(told.accessDescCount == 1);
  CHECK(told.accessDescs[0].location.id == 1);
  const CUstream stream = make_stream();
  OK(CU(cuGraphLaunch)(make_executable(graph), stream));
  OK(CU(cuStreamSynchronize)(stream));
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(second));
  const CUstream there = make_stream();
  CHECK(CU(cuMemsetD8Async)(params.dptr, 1, 1, there) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuStreamDestroy)(there));
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  OK(CU(cuMemFree)(params.dptr));
}

TEST_CASE_FIXTURE(EagerFixture, "a node that cannot allocate is refused") {
  CUgraph graph = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  CHECK(add_allocation(nullptr, wanted()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add_allocation(graph, wanted(0)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add_allocation(graph, wanted(kBytes, 7)) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(add_allocation(graph, wanted(SIZE_MAX)) == CUDA_ERROR_OUT_OF_MEMORY);
  CUDA_MEM_ALLOC_NODE_PARAMS shared = wanted();
  shared.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(add_allocation(graph, shared) == CUDA_ERROR_NOT_SUPPORTED);
  CUDA_MEM_ALLOC_NODE_PARAMS open = wanted();
  open.accessDescCount = 1;
  CHECK(add_allocation(graph, open) == CUDA_ERROR_INVALID_VALUE);
  CHECK(nodes_of(graph).empty());
  OK(CU(cuGraphDestroy)(graph));
}

TEST_CASE_FIXTURE(EagerFixture, "a graph that owns memory is no child") {
  CUgraph graph = nullptr;
  CUgraph parent = nullptr;
  CUgraphNode node = nullptr;
  OK(CU(cuGraphCreate)(&graph, 0));
  OK(CU(cuGraphCreate)(&parent, 0));
  OK(add_allocation(graph, wanted()));
  CHECK(CU(cuGraphAddChildGraphNode)(&node, parent, nullptr, 0, graph) == CUDA_ERROR_NOT_SUPPORTED);
  OK(CU(cuGraphDestroy)(graph));
  OK(CU(cuGraphDestroy)(parent));
}

TEST_CASE_FIXTURE(EagerFixture, "cuGraphInstantiateWithParams takes flags and returns the result") {
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CUgraphExec exec = nullptr;
  const CUstream stream = make_stream();
  const CUgraph graph = capture([](CUstream) {});
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  params.hUploadStream = stream;
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph, &params) == CUDA_SUCCESS);
  CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
  cuuint64_t flags = 0;
  CHECK(CU(cuGraphExecGetFlags)(exec, &flags) == CUDA_SUCCESS);
  CHECK(flags == params.flags);
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph, &params) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_ERROR);
  params.flags = 1 << 10;
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph, &params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph, nullptr) == CUDA_ERROR_INVALID_VALUE);
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  params.hUploadStream = reinterpret_cast<CUstream>(16);
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph, &params) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuGraphInstantiateWithFlags)(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.live().graph_execs == 1);
}

}  // namespace graph_memory_test
