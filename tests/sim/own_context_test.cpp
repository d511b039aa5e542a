// SPDX-License-Identifier: Apache-2.0
// Contexts that a program creates, and queries of contexts.
#include <thread>
#include <vector>

#include "sim/graph_fixture.hpp"
#include "sim/pool_fixture.hpp"

namespace own_context_test {

using namespace berth;
using namespace berth::test;

namespace {

CUcontext make_context(CUdevice device = 0, unsigned flags = 0) {
  CUcontext made = nullptr;
  OK(CU(cuCtxCreate)(&made, nullptr, flags, device));
  return made;
}

CUcontext current() {
  CUcontext found = nullptr;
  OK(CU(cuCtxGetCurrent)(&found));
  return found;
}

unsigned long long id_of(CUcontext context) {
  unsigned long long id = 0;
  OK(CU(cuCtxGetId)(context, &id));
  return id;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture,
                  "a new context is current, and popping it restores the previous one") {
  const CUcontext own = make_context(1);
  CHECK(current() == own);
  CHECK(own != context);
  CUdevice device = 0;
  OK(CU(cuCtxGetDevice)(&device));
  CHECK(device == 1);
  CHECK(CU(cuCtxDestroy)(own) == CUDA_SUCCESS);
  CHECK(current() == context);
  CHECK(sim.live().contexts == 1);
}

TEST_CASE_FIXTURE(EagerFixture, "objects of a context are destroyed with it, and others are not") {
  const std::uint64_t before = sim.device_bytes_used(0);
  const CUdeviceptr kept = make_memory(64);
  const CUcontext own = make_context();
  const CUdeviceptr memory = make_memory(3 << 20);
  unsigned char* pinned = make_pinned(64);
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUmemoryPool pool = make_pool();
  const CUdeviceptr pooled = allocate_from(pool, 64, nullptr);
  OK(CU(cuCtxSynchronize)());
  CHECK(CU(cuCtxDestroy)(own) == CUDA_SUCCESS);
  CHECK(found_leak(sim, "1 pinned host allocation of 64 B, 1 stream, 1 event"));
  CHECK(CU(cuMemFree)(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeHost)(pinned) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuMemsetD8)(kept, 1, 64) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8)(pooled, 1, 64) == CUDA_SUCCESS);  // of no context
  OK(CU(cuCtxSynchronize)());
  CHECK(CU(cuMemFree)(pooled) == CUDA_SUCCESS);
  OK(CU(cuMemPoolDestroy)(pool));
  OK(CU(cuMemFree)(kept));
  CHECK(sim.device_bytes_used(0) == before);
}

TEST_CASE_FIXTURE(ManualFixture, "a context's work is done before it is destroyed") {
  const CUdeviceptr memory = make_memory(64);
  const CUcontext own = make_context();
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(memory, 5, 64, stream));
  OK(CU(cuStreamDestroy)(stream));
  CHECK(CU(cuCtxDestroy)(own) == CUDA_SUCCESS);
  CHECK(sim.peek(memory, 64) == bytes_of(64, 5));
  OK(CU(cuMemsetD8Async)(memory, 6, 64, make_stream()));
  sim.run_all();
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(EagerFixture, "a destroyed context stays in the stacks of other threads") {
  const CUcontext own = make_context();
  OK(CU(cuCtxPushCurrent)(context));
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(own));
    OK(CU(cuCtxDestroy)(own));
    CHECK(current() == nullptr);
  }).join();
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(CU(cuCtxDestroy)(own) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "contexts of one device have a null stream and faults of their own") {
  const CUdeviceptr peer_memory = [&] {
    OK(CU(cuCtxPushCurrent)(retain(1)));
    const CUdeviceptr memory = make_memory(64);
    OK(CU(cuCtxPopCurrent)(nullptr));
    return memory;
  }();
  const CUcontext own = make_context();
  CHECK(sim.launch(nullptr, 0, {{peer_memory, 64, true}}));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(CU(cuCtxPushCurrent)(context));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(CU(cuCtxDestroy)(own) == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "the null streams of two contexts do not wait for one another") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, nullptr));
  make_context();
  OK(CU(cuMemsetD8Async)(memory, 2, 64, nullptr));
  sim.run_all();
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(EagerFixture, "a graph of a destroyed context does not run") {
  const CUdeviceptr memory = make_memory(64);
  const CUcontext own = make_context();
  const CUgraphExec exec = make_executable(
      capture([&](CUstream stream) { OK(CU(cuMemsetD8Async)(memory, 1, 64, stream)); }));
  OK(CU(cuCtxDestroy)(own));
  CHECK(CU(cuGraphLaunch)(exec, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "a context that cannot be made is refused") {
  CUcontext made = nullptr;
  CHECK(CU(cuCtxCreate)(nullptr, nullptr, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxCreate)(&made, nullptr, 0, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuCtxCreate)(&made, nullptr, 0, -1) == CUDA_ERROR_INVALID_DEVICE);
  for (const unsigned flags : {0x100U, 3U, 5U, 7U, ~0U})
    CHECK(CU(cuCtxCreate)(&made, nullptr, flags, 0) == CUDA_ERROR_INVALID_VALUE);
  CUctxCreateParams parameters{};
  CHECK(CU(cuCtxCreate)(&made, &parameters, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CUexecAffinityParam affinity{};
  parameters.execAffinityParams = &affinity;
  parameters.numExecAffinityParams = 1;
  CHECK(CU(cuCtxCreate)(&made, &parameters, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CUctxCigParam graphics{};
  parameters.cigParams = &graphics;
  CHECK(CU(cuCtxCreate)(&made, &parameters, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(made == nullptr);
  CHECK(current() == context);
}

TEST_CASE_FIXTURE(EagerFixture, "only a context that the program created can be destroyed") {
  CHECK(CU(cuCtxDestroy)(context) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxDestroy)(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxDestroy)(reinterpret_cast<CUcontext>(99)) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "the flags, id and version of a context can be queried") {
  const CUcontext own = make_context(0, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST);
  unsigned flags = 0;
  CHECK(CU(cuCtxGetFlags)(&flags) == CUDA_SUCCESS);
  CHECK(flags == (CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST));
  CHECK(id_of(own) == id_of(nullptr));
  CHECK(id_of(own) != id_of(context));
  unsigned version = 0;
  CHECK(CU(cuCtxGetApiVersion)(context, &version) == CUDA_SUCCESS);
  CHECK(version == 3020);
  const unsigned long long id = id_of(own);
  OK(CU(cuCtxDestroy)(own));
  CHECK(id != id_of(make_context()));
  unsigned long long unwritten = 0;
  CHECK(CU(cuCtxGetId)(own, &unwritten) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxGetId)(context, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxGetApiVersion)(reinterpret_cast<CUcontext>(9), &version) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxGetApiVersion)(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxGetFlags)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(CU(cuCtxGetFlags)(&flags) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxGetId)(nullptr, &unwritten) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(ManualFixture, "a context flag can make synchronous calls always wait") {
  make_context(0, CU_CTX_SYNC_MEMOPS);
  const CUdeviceptr memory = make_memory(64);
  std::vector<unsigned char> host = bytes_of(64, 3);
  CHECK(CU(cuMemsetD8)(memory, 1, 64) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(nullptr) == 0);
  CHECK(CU(cuMemcpyDtoD)(memory, memory + 32, 32) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(nullptr) == 0);
  CHECK(CU(cuMemcpyHtoD)(memory, host.data(), 64) == CUDA_SUCCESS);
  CHECK(sim.peek(memory, 64) == host);
}

TEST_CASE_FIXTURE(ManualFixture, "memory can make synchronous calls always wait") {
  const CUdeviceptr memory = make_memory(64);
  const CUdeviceptr other = make_memory(64);
  constexpr auto attribute = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  unsigned value = 7;
  OK(CU(cuPointerGetAttribute)(&value, attribute, memory));
  CHECK(value == 0);
  value = 1;
  OK(CU(cuPointerSetAttribute)(&value, attribute, memory + 8));
  value = 7;
  OK(CU(cuPointerGetAttribute)(&value, attribute, memory));
  CHECK(value == 1);
  OK(CU(cuMemsetD8)(other, 1, 64));
  CHECK(sim.pending_operations(nullptr) == 1);
  OK(CU(cuMemsetD8)(memory, 1, 64));
  CHECK(sim.pending_operations(nullptr) == 0);
  OK(CU(cuMemcpyDtoD)(other, memory, 32));
  CHECK(sim.pending_operations(nullptr) == 0);
  OK(CU(cuMemcpyDtoD)(memory, other, 32));
  CHECK(sim.pending_operations(nullptr) == 0);
  value = 0;
  OK(CU(cuPointerSetAttribute)(&value, attribute, memory));
  OK(CU(cuMemcpyDtoD)(memory, other, 32));
  CHECK(sim.pending_operations(nullptr) == 1);
  CHECK(CU(cuPointerSetAttribute)(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuPointerSetAttribute)(nullptr, attribute, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuPointerSetAttribute)(&value, attribute, 64) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "contexts of one device are no peers") {
  const CUcontext own = make_context();
  CHECK(CU(cuCtxEnablePeerAccess)(context, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CHECK(CU(cuCtxDisablePeerAccess)(context) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  CHECK(CU(cuCtxDisablePeerAccess)(own) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(EagerFixture, "peer access ends where it is disabled") {
  const CUdeviceptr here = make_memory(64);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(CU(cuCtxDisablePeerAccess)(context) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  OK(CU(cuCtxEnablePeerAccess)(context, 0));
  CHECK(CU(cuMemsetD8)(here, 1, 64) == CUDA_SUCCESS);
  CHECK(CU(cuCtxDisablePeerAccess)(context) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8)(here, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxDisablePeerAccess)(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxEnablePeerAccess)(context, 0) == CUDA_SUCCESS);
}

}  // namespace own_context_test
