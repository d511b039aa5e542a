// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "sim/sim_fixture.hpp"

namespace context_test {

using namespace berth;
using namespace berth::test;

namespace {

struct DriverFixture {
  DriverFixture() : sim("devices=2,memory=1GiB") { OK(CU(cuInit)(0)); }
  sim::Simulator sim;
};

CUcontext current() {
  CUcontext context = nullptr;
  OK(CU(cuCtxGetCurrent)(&context));
  return context;
}

bool is_active(CUdevice device) {
  unsigned flags = 99;
  int active = -1;
  OK(CU(cuDevicePrimaryCtxGetState)(device, &flags, &active));
  CHECK(flags == 0);
  return active == 1;
}

}  // namespace

TEST_CASE_FIXTURE(DriverFixture, "a primary context is one, however often it is retained") {
  CHECK_FALSE(is_active(0));
  const CUcontext context = retain(0);
  CHECK(retain(0) == context);
  CHECK(is_active(0));
  CHECK_FALSE(is_active(1));
  CHECK(retain(1) != context);
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_SUCCESS);
  CHECK(is_active(0));
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_SUCCESS);
  CHECK_FALSE(is_active(0));
  CHECK(CU(cuDevicePrimaryCtxRelease)(0) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(DriverFixture, "retaining a context does not make it current") {
  retain(0);
  CHECK(current() == nullptr);
}

TEST_CASE_FIXTURE(DriverFixture, "contexts are pushed and popped as a stack") {
  const CUcontext first = retain(0);
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(first));
  OK(CU(cuCtxPushCurrent)(second));
  CHECK(current() == second);
  CUdevice device = -1;
  OK(CU(cuCtxGetDevice)(&device));
  CHECK(device == 1);
  CUcontext popped = nullptr;
  CHECK(CU(cuCtxPopCurrent)(&popped) == CUDA_SUCCESS);
  CHECK(popped == second);
  CHECK(current() == first);
  CHECK(CU(cuCtxPopCurrent)(nullptr) == CUDA_SUCCESS);
  CHECK(current() == nullptr);
  CHECK(CU(cuCtxPopCurrent)(&popped) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(DriverFixture, "setting a context replaces the top, and null pops it") {
  const CUcontext first = retain(0);
  const CUcontext second = retain(1);
  OK(CU(cuCtxPushCurrent)(first));
  OK(CU(cuCtxPushCurrent)(first));
  CHECK(CU(cuCtxSetCurrent)(second) == CUDA_SUCCESS);
  CHECK(current() == second);
  CHECK(CU(cuCtxSetCurrent)(nullptr) == CUDA_SUCCESS);
  CHECK(current() == first);
  CHECK(CU(cuCtxSetCurrent)(nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuCtxSetCurrent)(nullptr) == CUDA_SUCCESS);
  CHECK(current() == nullptr);
  CHECK(CU(cuCtxSetCurrent)(second) == CUDA_SUCCESS);
  CHECK(current() == second);
}

TEST_CASE_FIXTURE(DriverFixture, "the current context is the thread's own") {
  const CUcontext context = retain(0);
  OK(CU(cuCtxPushCurrent)(context));
  CUcontext elsewhere = context;
  std::thread([&] { CU(cuCtxGetCurrent)(&elsewhere); }).join();
  CHECK(elsewhere == nullptr);
}

TEST_CASE_FIXTURE(DriverFixture, "what needs a context is refused where none is current") {
  retain(0);
  int value = 0;
  std::size_t size = 0;
  CUdeviceptr pointer = 0;
  void* host = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CHECK(CU(cuCtxGetDevice)(&value) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxGetStreamPriorityRange)(&value, &value) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemGetInfo)(&size, &size) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemAlloc)(&pointer, 512) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemFree)(0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemHostAlloc)(&host, 512, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuStreamCreateWithPriority)(&stream, 0, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuEventCreate)(&event, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuMemcpyAsync)(1, 1, 1, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE_FIXTURE(DriverFixture, "a context that does not exist cannot be made current") {
  const CUcontext context = retain(0);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  int local = 0;
  for (const CUcontext wrong :
       {context, reinterpret_cast<CUcontext>(8), reinterpret_cast<CUcontext>(&local)}) {
    CHECK(CU(cuCtxPushCurrent)(wrong) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(CU(cuCtxSetCurrent)(wrong) == CUDA_ERROR_INVALID_CONTEXT);
  }
  CHECK(CU(cuCtxPushCurrent)(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxGetCurrent)(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(DriverFixture,
                  "a context that ends stays on the stack, and calls say that it ended") {
  const CUcontext context = retain(0);
  OK(CU(cuCtxPushCurrent)(context));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CUdeviceptr pointer = 0;
  CHECK(current() == context);
  CHECK(CU(cuMemAlloc)(&pointer, 512) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(CU(cuCtxPopCurrent)(nullptr) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(DriverFixture, "a context that ends takes along all that was made in it") {
  OK(CU(cuCtxPushCurrent)(retain(0)));
  const CUdeviceptr small = make_memory(512);
  make_memory(8 << 20);
  make_pinned(4096);
  std::vector<char> own(4096);
  OK(CU(cuMemHostRegister)(own.data(), own.size(), 0));
  make_stream();
  const CUevent event = make_event();
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = properties_on(0);
  OK(CU(cuMemCreate)(&handle, 2 << 20, &properties, 0));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(found_leak(sim,
                   "2 allocations of 8389120 B, 1 pinned host allocation of 4096 B, "
                   "1 host registration of 4096 B, 1 stream, 1 event"));
  // Physical handles belong to the process.
  CHECK(sim.live() == sim::Live{.physical_handles = 1});
  CHECK(sim.device_bytes_used(0) == 2 << 20);
  OK(CU(cuMemRelease)(handle));
  CHECK(sim.device_bytes_used(0) == 0);
  OK(CU(cuCtxSetCurrent)(retain(0)));
  CHECK(CU(cuMemFree)(small) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a context finishes its work before it ends") {
  ManualFixture fixture;
  unsigned char* pinned = nullptr;
  {
    OK(CU(cuCtxPushCurrent)(retain(1)));
    pinned = make_pinned(16);
    OK(CU(cuCtxPopCurrent)(nullptr));
  }
  pinned[0] = 0;
  OK(CU(cuMemsetD8Async)(address_of(pinned), 7, 16, make_stream()));
  CHECK(pinned[0] != 7);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(pinned[0] == 7);
  CHECK(found_leak(fixture.sim, "1 stream"));
}

TEST_CASE("a new simulator starts with an empty stack and knows no old handle") {
  CUcontext old_context = nullptr;
  CUevent old_event = nullptr;
  {
    const EagerFixture fixture;
    old_context = fixture.context;
    old_event = make_event();
  }
  const sim::Simulator sim("");
  OK(CU(cuInit)(0));
  CHECK(current() == nullptr);
  CHECK(CU(cuCtxPushCurrent)(old_context) == CUDA_ERROR_INVALID_CONTEXT);
  OK(CU(cuCtxPushCurrent)(retain(0)));
  const CUevent event = make_event();
  CHECK(event != old_event);
  CHECK(CU(cuEventQuery)(old_event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "peer access is enabled once, in one direction, between two contexts") {
  const CUcontext peer = retain(1);
  CHECK(CU(cuCtxEnablePeerAccess)(peer, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxEnablePeerAccess)(context, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxEnablePeerAccess)(nullptr, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuCtxEnablePeerAccess)(peer, 0) == CUDA_SUCCESS);
  CHECK(CU(cuCtxEnablePeerAccess)(peer, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  OK(CU(cuCtxSetCurrent)(peer));
  CHECK(CU(cuCtxEnablePeerAccess)(context, 0) == CUDA_SUCCESS);
}

TEST_CASE("peer access that the devices lack is unsupported") {
  const SimFixture fixture("devices=2,peer=off");
  CHECK(CU(cuCtxEnablePeerAccess)(retain(1), 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

}  // namespace context_test
