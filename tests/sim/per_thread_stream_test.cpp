// SPDX-License-Identifier: Apache-2.0
// The forms of functions for programs compiled with --default-stream per-thread.
#include <cuda.h>

#include <string>
#include <thread>

#include "sim/per_thread_functions.hpp"
#include "sim/sim_fixture.hpp"

namespace per_thread_stream_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

void* find(const char* symbol, int version, cuuint64_t flags,
           CUdriverProcAddressQueryResult* status = nullptr) {
  void* address = nullptr;
  CHECK(CU(cuGetProcAddress_v2)(symbol, &address, version, flags, status) == CUDA_SUCCESS);
  return address;
}

}  // namespace

TEST_CASE("cuGetProcAddress returns the per-thread form of every function that has one") {
  const sim::Simulator newest("driver_version=13020");
#define BERTH_CHECK_FORM(symbol, name)                                             \
  CHECK_MESSAGE(find(#symbol, 13020, kPerThread) == sim::resolve(#name), #symbol); \
  CHECK_MESSAGE(find(#symbol, 13020, 0) == sim::resolve(#symbol), #symbol);        \
  CHECK_MESSAGE(sim::resolve(#name) != sim::resolve(#symbol), #symbol);
  BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_CHECK_FORM)
#undef BERTH_CHECK_FORM
}

TEST_CASE("a function without a stream is the same in both forms") {
  CHECK(find("cuInit", 13000, kPerThread) == sim::resolve("cuInit"));
  CHECK(find("cuStreamDestroy", 13000, kPerThread) == sim::resolve("cuStreamDestroy"));
  CHECK(find("cuInit", 2000, kPerThread) != nullptr);
}

TEST_CASE("per-thread forms are available from CUDA 7, or from their function's version") {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(find("cuStreamQuery", 2000, 0) != nullptr);
  CHECK(find("cuStreamQuery", 6050, kPerThread, &status) == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(find("cuStreamQuery", 7000, kPerThread) != nullptr);
  CHECK(find("cuLaunchHostFunc", 9020, kPerThread) == nullptr);
  CHECK(find("cuLaunchHostFunc", 10000, kPerThread) != nullptr);
}

TEST_CASE_FIXTURE(ManualFixture, "the null stream of a per-thread form is the thread's own") {
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8Async_ptsz)(memory, 1, 64, nullptr));
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 1);
  CHECK(sim.pending_operations(CU_STREAM_LEGACY) == 0);
  CHECK(CU(cuStreamQuery_ptsz)(nullptr) == CUDA_ERROR_NOT_READY);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    CHECK(CU(cuStreamQuery_ptsz)(nullptr) == CUDA_SUCCESS);
  }).join();
  OK(CU(cuStreamSynchronize_ptsz)(nullptr));
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "per-thread forms do not affect the plain forms") {
  const CUdeviceptr memory = make_memory(64);
  CHECK(CU(cuStreamQuery_ptsz)(nullptr) == CUDA_SUCCESS);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, nullptr));
  CHECK(sim.pending_operations(CU_STREAM_LEGACY) == 1);
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a per-thread form accepts other streams unchanged") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8Async_ptsz)(memory, 1, 64, stream));
  OK(CU(cuMemsetD8Async_ptsz)(memory, 2, 64, CU_STREAM_LEGACY));
  CHECK(sim.pending_operations(stream) == 1);
  CHECK(sim.pending_operations(CU_STREAM_LEGACY) == 1);
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 0);
  CHECK(CU(cuStreamQuery_ptsz)(reinterpret_cast<CUstream>(std::uintptr_t{0x1234})) ==
        CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "calls of a per-thread form are counted and checked as calls of its function") {
  CHECK(CU(cuStreamQuery_ptsz)(nullptr) == CUDA_SUCCESS);
  CHECK(sim.calls("cuStreamQuery") == 1);
  OK(CU(cuCtxSetCurrent)(nullptr));
  CHECK(CU(cuStreamQuery_ptsz)(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace per_thread_stream_test
