// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_fixture.hpp"

namespace event_test {

using namespace berth;
using namespace berth::test;

namespace {

CUresult fill(CUdeviceptr memory, unsigned char value, CUstream stream) {
  return CU(cuMemsetD8Async)(memory, value, 1, stream);
}

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "an event is completed when the work before it is done") {
  const CUevent event = make_event();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  OK(fill(memory, 1, stream));
  OK(CU(cuEventRecord)(event, stream));
  OK(fill(memory, 2, stream));
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  CHECK(CU(cuEventSynchronize)(event) == CUDA_SUCCESS);
  CHECK(CU(cuEventQuery)(event) == CUDA_SUCCESS);
  CHECK(sim.peek(memory, 1) == bytes_of(1, 1));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
}

TEST_CASE_FIXTURE(ManualFixture, "a record after a wait does not affect the wait") {
  const CUevent event = make_event();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  OK(CU(cuEventRecord)(event, first));
  CHECK(CU(cuStreamQuery)(second) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a wait for an unrecorded event on the legacy stream orders blocking streams") {
  const CUstream first = make_stream(CU_STREAM_DEFAULT);
  const CUstream second = make_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = make_memory(1);
  OK(fill(memory, 1, first));
  OK(CU(cuStreamWaitEvent)(nullptr, make_event(), 0));
  OK(fill(memory, 2, second));
  CHECK_FALSE(sim.run_next(second));
  OK(CU(cuStreamSynchronize)(second));
  CHECK(CU(cuStreamQuery)(first) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "an event is recorded in its own context only") {
  const CUevent event = make_event();
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(CU(cuEventRecord)(event, make_stream()) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventRecord)(event, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventRecord)(make_event(), make_stream()) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "event creation checks its flags") {
  CUevent event = nullptr;
  CHECK(CU(cuEventCreate)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventCreate)(&event, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(CU(cuEventCreate)(&event, CU_EVENT_BLOCKING_SYNC) == CUDA_SUCCESS);
  CHECK(sim.live().events == 2);
}

TEST_CASE_FIXTURE(EagerFixture, "every call refuses an invalid event handle") {
  const CUevent destroyed = make_event();
  OK(CU(cuEventDestroy)(destroyed));
  const CUstream stream = make_stream();
  float milliseconds = 0;
  int local = 0;
  for (const CUevent event : {destroyed, CUevent{nullptr}, reinterpret_cast<CUevent>(&local),
                              reinterpret_cast<CUevent>(stream), reinterpret_cast<CUevent>(1)}) {
    CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuEventSynchronize)(event) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuEventDestroy)(event) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuEventRecord)(event, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamWaitEvent)(stream, event, 0) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuEventElapsedTime)(&milliseconds, event, event) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(CU(cuStreamWaitEvent)(stream, make_event(), CU_EVENT_WAIT_EXTERNAL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWaitEvent)(stream, make_event(), 2) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "elapsed time grows with the operations between two records") {
  const CUstream stream = make_stream();
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  const CUdeviceptr memory = make_memory(1);
  float short_while = -1;
  float long_while = -1;
  OK(CU(cuEventRecord)(start, stream));
  OK(CU(cuEventRecord)(end, stream));
  CHECK(CU(cuEventElapsedTime)(&short_while, start, end) == CUDA_ERROR_NOT_READY);
  CHECK(sim.run_next(stream));
  CHECK(CU(cuEventElapsedTime)(&short_while, start, end) == CUDA_ERROR_NOT_READY);
  CHECK(sim.run_next(stream));
  CHECK(CU(cuEventElapsedTime)(&short_while, start, end) == CUDA_SUCCESS);
  CHECK(short_while > 0);
  OK(CU(cuEventRecord)(start, stream));
  for (int i = 0; i < 10; ++i) OK(fill(memory, 1, stream));
  OK(CU(cuEventRecord)(end, stream));
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuEventElapsedTime)(&long_while, start, end));
  CHECK(long_while > short_while * 5);
  OK(CU(cuEventElapsedTime)(&short_while, end, start));
  CHECK(short_while == -long_while);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "elapsed time follows the latest records, even if an earlier one runs late") {
  const CUstream early = make_stream();
  const CUstream late = make_stream();
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  float before = 0;
  float after = 0;
  OK(CU(cuEventRecord)(start, early));
  OK(fill(make_memory(1), 1, late));
  OK(CU(cuEventRecord)(end, late));  // left pending
  OK(CU(cuEventRecord)(end, early));
  OK(CU(cuStreamSynchronize)(early));
  OK(CU(cuEventElapsedTime)(&before, start, end));
  OK(CU(cuStreamSynchronize)(late));
  OK(CU(cuEventElapsedTime)(&after, start, end));
  CHECK(before == after);
}

TEST_CASE_FIXTURE(EagerFixture, "elapsed time needs two recorded events with timing") {
  const CUstream stream = make_stream();
  const CUevent timed = make_event(CU_EVENT_DEFAULT);
  const CUevent untimed = make_event(CU_EVENT_DISABLE_TIMING);
  const CUevent unrecorded = make_event(CU_EVENT_DEFAULT);
  OK(CU(cuEventRecord)(timed, stream));
  OK(CU(cuEventRecord)(untimed, stream));
  float milliseconds = 0;
  CHECK(CU(cuEventElapsedTime)(&milliseconds, timed, untimed) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventElapsedTime)(&milliseconds, timed, unrecorded) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventElapsedTime)(&milliseconds, unrecorded, timed) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventElapsedTime)(nullptr, timed, timed) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventElapsedTime)(&milliseconds, timed, timed) == CUDA_SUCCESS);
  CHECK(milliseconds == 0);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUevent elsewhere = make_event(CU_EVENT_DEFAULT);
  OK(CU(cuEventRecord)(elsewhere, nullptr));
  CHECK(CU(cuEventElapsedTime)(&milliseconds, timed, elsewhere) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(EagerFixture, "an event can be queried without a current context") {
  const CUevent event = make_event();
  OK(CU(cuEventRecord)(event, nullptr));
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(CU(cuEventQuery)(event) == CUDA_SUCCESS);
  CHECK(CU(cuEventSynchronize)(event) == CUDA_SUCCESS);
}

}  // namespace event_test
