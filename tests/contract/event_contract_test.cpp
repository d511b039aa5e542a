// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Event Management", "Stream Management".
#include "contract/contract_driver.hpp"

namespace event_contract_test {

using namespace berth;
using namespace berth::test;

// cuEventRecord: "Before the first call to cuEventRecord(), an event represents an empty set of
// work".
TEST_CASE_FIXTURE(ContractFixture,
                  "an event that was never recorded is completed and blocks no stream") {
  const CUevent event = make_event();
  const CUstream stream = make_stream();
  CHECK(driver.try_event_query(event) == CUDA_SUCCESS);
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  CHECK(driver.try_stream_wait_event(stream, event, 0U) == CUDA_SUCCESS);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
}

// cuEventCreate: "CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING."
TEST_CASE_FIXTURE(ContractFixture, "an event is created with known flags only") {
  CUevent event = nullptr;
  CHECK(driver.try_event_create(&event, 0x80U) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_event_create(&event, unsigned{CU_EVENT_INTERPROCESS}) ==
        CUDA_ERROR_INVALID_VALUE);
}

// cuEventQuery: success "if all captured work has been completed", CUDA_ERROR_NOT_READY otherwise;
// "Uses of hStream after this call do not modify hEvent."
TEST_CASE_FIXTURE(ContractFixture, "an event marks the work before its record, and none after it") {
  const CUevent early = make_event();
  const CUevent late = make_event();
  const CUstream stream = make_stream();
  driver.event_record(early, stream);
  driver.event_synchronize(early);
  Gate gate(driver, stream);
  driver.event_record(late, stream);
  CHECK(driver.try_event_query(early) == CUDA_SUCCESS);
  CHECK(driver.try_event_query(late) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(late) == CUDA_SUCCESS);
  CHECK(driver.try_event_query(late) == CUDA_SUCCESS);
  driver.event_destroy(early);
  driver.event_destroy(late);
  driver.stream_destroy(stream);
}

// cuStreamWaitEvent: "Makes all future work submitted to hStream wait for all work captured in
// hEvent."
TEST_CASE_FIXTURE(ContractFixture, "a stream waits for the work behind an event") {
  const CUevent event = make_event();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr memory = make_memory(64);
  Gate gate(driver, first);
  fill(memory, 1, 64, first);
  driver.event_record(event, first);
  driver.stream_wait_event(second, event, 0U);
  fill(memory, 2, 64, second);
  CHECK(driver.try_stream_query(second) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(read(memory, 64, second) == bytes_of(64, 2));
  CHECK(driver.try_event_query(event) == CUDA_SUCCESS);
  driver.mem_free(memory);
  driver.event_destroy(event);
  driver.stream_destroy(first);
  driver.stream_destroy(second);
}

// cuEventRecord: "cuStreamWaitEvent() use[s] the most recently captured state at the time of the
// API call, and [is] not affected by later calls to cuEventRecord()."
TEST_CASE_FIXTURE(ContractFixture, "a wait applies to the latest record before the wait") {
  const CUevent event = make_event();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  driver.event_record(event, first);
  driver.stream_wait_event(second, event, 0U);
  Gate gate(driver, first);
  driver.event_record(event, first);  // behind the gate
  CHECK(driver.try_stream_synchronize(second) == CUDA_SUCCESS);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  driver.event_destroy(event);
  driver.stream_destroy(first);
  driver.stream_destroy(second);
}

// cuEventDestroy: "An event may be destroyed before it is complete".
TEST_CASE_FIXTURE(ContractFixture, "a destroyed event still orders streams that wait for it") {
  const CUevent event = make_event();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr memory = make_memory(64);
  Gate gate(driver, first);
  fill(memory, 1, 64, first);
  driver.event_record(event, first);
  driver.stream_wait_event(second, event, 0U);
  CHECK(driver.try_event_destroy(event) == CUDA_SUCCESS);
  fill(memory, 2, 64, second);
  CHECK(driver.try_stream_query(second) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(read(memory, 64, second) == bytes_of(64, 2));
  driver.mem_free(memory);
  driver.stream_destroy(first);
  driver.stream_destroy(second);
}

// cuStreamDestroy with work pending, and an event behind that work.
TEST_CASE_FIXTURE(ContractFixture, "an event outlives the stream that it was recorded on") {
  const CUevent event = make_event();
  const CUstream stream = make_stream();
  Gate gate(driver, stream);
  driver.event_record(event, stream);
  driver.stream_destroy(stream);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  driver.event_destroy(event);
}

// cuEventRecord: "hEvent and hStream must be from the same context otherwise
// CUDA_ERROR_INVALID_HANDLE"; cuStreamWaitEvent: "hEvent may be from a different context or device
// than hStream."
TEST_CASE_FIXTURE(ContractFixture,
                  "another device's stream waits for an event, but cannot record it") {
  if (!has_two_devices()) return;
  const CUevent event = make_event();
  const CUstream here = make_stream();
  {
    const SecondContext second(driver);
    const CUstream there = make_stream();
    CHECK(driver.try_event_record(event, there) == CUDA_ERROR_INVALID_HANDLE);
    driver.ctx_push_current(context);
    Gate gate(driver, here);
    driver.event_record(event, here);
    driver.ctx_pop_current(nullptr);
    CHECK(driver.try_stream_wait_event(there, event, 0U) == CUDA_SUCCESS);
    CHECK(driver.try_stream_query(there) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(driver.try_stream_synchronize(there) == CUDA_SUCCESS);
    CHECK(driver.try_event_query(event) == CUDA_SUCCESS);
    driver.stream_destroy(there);
  }
  driver.event_destroy(event);
  driver.stream_destroy(here);
}

// cuEventElapsedTime: CUDA_ERROR_NOT_READY while one "has not yet been completed".
TEST_CASE_FIXTURE(ContractFixture, "elapsed time is available once both events are completed") {
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  const CUstream stream = make_stream();
  float milliseconds = -1;
  driver.event_record(start, stream);
  Gate gate(driver, stream);
  driver.event_record(end, stream);
  CHECK(driver.try_event_elapsed_time(&milliseconds, start, end) == CUDA_ERROR_NOT_READY);
  gate.open();
  driver.event_synchronize(end);
  CHECK(driver.try_event_elapsed_time(&milliseconds, start, end) == CUDA_SUCCESS);
  CHECK(milliseconds > 0);
  driver.event_destroy(start);
  driver.event_destroy(end);
  driver.stream_destroy(stream);
}

// cuEventElapsedTime: CUDA_ERROR_INVALID_HANDLE where an event was never recorded, or was "created
// with the CU_EVENT_DISABLE_TIMING flag".
TEST_CASE_FIXTURE(ContractFixture, "elapsed time needs recorded events with timing") {
  const CUevent timed = make_event(CU_EVENT_DEFAULT);
  const CUevent untimed = make_event(CU_EVENT_DISABLE_TIMING);
  const CUevent unrecorded = make_event(CU_EVENT_DEFAULT);
  const CUstream stream = make_stream();
  float milliseconds = -1;
  driver.event_record(timed, stream);
  driver.event_record(untimed, stream);
  driver.stream_synchronize(stream);
  CHECK(driver.try_event_elapsed_time(&milliseconds, timed, untimed) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.try_event_elapsed_time(&milliseconds, timed, unrecorded) ==
        CUDA_ERROR_INVALID_HANDLE);
  for (const CUevent event : {timed, untimed, unrecorded}) driver.event_destroy(event);
  driver.stream_destroy(stream);
}

}  // namespace event_contract_test
