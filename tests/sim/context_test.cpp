// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

TEST_CASE_FIXTURE(DriverFixture, "a primary context has no flags") {
  unsigned flags = 99;
  int active = -1;
  CHECK(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active) == CUDA_SUCCESS);
  CHECK(flags == 0);
  CHECK(active == 0);
}

TEST_CASE_FIXTURE(DriverFixture, "calls that need a context are refused if none is current") {
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

TEST_CASE("the current context is known without a call, where a call would tell it") {
  const auto without_call = [] { return CU(berthSimCurrentContext)(); };
  CHECK(without_call() == nullptr);
  {
    DriverFixture driver;
    CHECK(without_call() == nullptr);
    const CUcontext context = retain(1);
    OK(CU(cuCtxPushCurrent)(context));
    const std::uint64_t calls = driver.sim.calls("cuCtxGetCurrent");
    CHECK(without_call() == context);
    CHECK(driver.sim.calls("cuCtxGetCurrent") == calls);
    CHECK(current() == context);
    CUcontext in_kernel = context;
    driver.sim.launch(nullptr, {.compute = [&](sim::KernelMemory) { in_kernel = without_call(); }});
    OK(CU(cuCtxSynchronize)());
    CHECK(in_kernel == nullptr);
  }
  CHECK(without_call() == nullptr);
  DriverFixture other;
  CHECK(without_call() == nullptr);
}

TEST_CASE_FIXTURE(DriverFixture, "the destruction of a context frees all its objects") {
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

TEST_CASE("a new simulator starts with an empty stack and rejects old handles") {
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

TEST_CASE("peer access that the devices lack is unsupported") {
  const SimFixture fixture("devices=2,peer=off");
  CHECK(CU(cuCtxEnablePeerAccess)(retain(1), 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

}  // namespace context_test
