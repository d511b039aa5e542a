// SPDX-License-Identifier: Apache-2.0
// cuStreamAddCallback.
#include <vector>

#include "sim/graph_fixture.hpp"
#include "sim/per_thread_functions.hpp"

namespace stream_callback_test {

using namespace berth;
using namespace berth::test;

namespace {

/// What a callback was told.
struct Told {
  static void CUDA_CB note(CUstream stream, CUresult status, void* data) {
    auto& told = *static_cast<Told*>(data);
    told.stream = stream;
    told.status = status;
    ++told.times;
    CUdevice device = 0;
    told.call_inside = CU(cuDeviceGet)(&device, 0);
  }

  CUstream stream = nullptr;
  CUresult status = CUDA_ERROR_UNKNOWN;
  int times = 0;
  CUresult call_inside = CUDA_SUCCESS;
};

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "a callback runs once, in stream order, and may make no call") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  Told told;
  OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
  CHECK(CU(cuStreamAddCallback)(stream, &Told::note, &told, 0) == CUDA_SUCCESS);
  OK(CU(cuMemsetD8Async)(memory, 2, 64, stream));
  CHECK(sim.run_next(stream));
  CHECK(told.times == 0);
  CHECK(sim.run_next(stream));
  CHECK(told.times == 1);
  CHECK(told.stream == stream);
  CHECK(told.status == CUDA_SUCCESS);
  CHECK(told.call_inside == CUDA_ERROR_NOT_PERMITTED);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(told.times == 1);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a callback receives the error of a fault, and a host function is not called") {
  const CUdeviceptr here = make_memory(64);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUstream stream = make_stream();
  Told told;
  bool called = false;
  OK(CU(cuMemcpyAsync)(make_memory(64), here, 64, stream));
  OK(CU(cuLaunchHostFunc)(
      stream, [](void* flag) { *static_cast<bool*>(flag) = true; }, &called));
  OK(CU(cuStreamAddCallback)(stream, &Told::note, &told, 0));
  OK(CU(cuCtxPushCurrent)(context));
  OK(CU(cuMemFree)(here));
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(found_race(sim));  // nothing has waited for the copy
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_FALSE(called);
  CHECK(told.times == 1);
  CHECK(told.status == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "work after an observed callback does not race with work before it") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  Told told;
  OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
  OK(CU(cuStreamAddCallback)(stream, &Told::note, &told, 0));
  sim.run_all();
  OK(CU(cuMemsetD8Async)(memory, 2, 64, make_stream()));
  sim.run_all();
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(ManualFixture, "a callback on a captured stream invalidates the capture") {
  const CUstream stream = make_stream();
  Told told;
  begin_capture(stream);
  CHECK(CU(cuStreamAddCallback)(stream, &Told::note, &told, 0) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture, "cuStreamAddCallback refuses invalid arguments") {
  Told told;
  CHECK(CU(cuStreamAddCallback)(nullptr, nullptr, &told, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamAddCallback)(nullptr, &Told::note, &told, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamAddCallback)(reinterpret_cast<CUstream>(99), &Told::note, &told, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuStreamAddCallback_ptsz)(nullptr, &Told::note, &told, 0) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 1);
  OK(CU(cuCtxSynchronize)());
  CHECK(told.times == 1);
  CHECK(told.stream == nullptr);
}

}  // namespace stream_callback_test
