// SPDX-License-Identifier: Apache-2.0
// What an event marks, which threads may query it, and what it measures.
// Source: CUDA Driver API, "Event Management"; CUDA C++ Programming Guide, "Stream and Event
// Behavior" on several devices.
#include "contract/contract_driver.hpp"

namespace event_record_contract_test {

using namespace berth;
using namespace berth::test;

// cuEventRecord "can be called multiple times on the same event and will overwrite the previously
// captured state".
TEST_CASE_FIXTURE(ContractFixture, "recording an event again drops its first record") {
  const CUevent event = make_event();
  const CUstream held = make_stream();
  const CUstream other = make_stream();
  {
    Gate gate(driver, held);
    driver.event_record(event, held);
    driver.event_record(event, other);
    CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
    CHECK(driver.try_event_query(event) == CUDA_SUCCESS);
    CHECK(driver.try_stream_query(held) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(held);
  }
  driver.event_destroy(event);
  driver.stream_destroy(held);
  driver.stream_destroy(other);
}

// cuEventQuery has no CUDA_ERROR_INVALID_CONTEXT among its return values.
TEST_CASE_FIXTURE(ContractFixture, "an event is queried without a current context") {
  const CUevent event = make_event();
  const CUstream stream = make_stream();
  CUresult pending = CUDA_ERROR_UNKNOWN;
  {
    Gate gate(driver, stream);
    driver.event_record(event, stream);
    std::thread([&] { pending = driver.try_event_query(event); }).join();
    gate.open();
    driver.event_synchronize(event);
  }
  CHECK(pending == CUDA_ERROR_NOT_READY);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
}

// cuEventSynchronize: "Waits until the completion of all work currently captured"; with
// CU_EVENT_BLOCKING_SYNC the thread blocks, without it busy-waits, for the same.
TEST_CASE_FIXTURE(ContractFixture, "the host waits for an event, by spinning or blocking") {
  for (const unsigned flags : {unsigned{CU_EVENT_DISABLE_TIMING},
                               unsigned{CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC}}) {
    const CUevent event = make_event(flags);
    const CUstream stream = make_stream();
    unsigned char* pinned = make_pinned(1);
    Gate gate(driver, stream);
    fill(address_of(pinned), 6, 1, stream);
    driver.event_record(event, stream);
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.open();
    });
    CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
    CHECK(*pinned == 6);
    opener.join();
    driver.stream_synchronize(stream);
    driver.mem_free_host(static_cast<void*>(pinned));
    driver.event_destroy(event);
    driver.stream_destroy(stream);
  }
}

// cuEventRecordWithFlags: CU_EVENT_RECORD_DEFAULT is cuEventRecord.
TEST_CASE_FIXTURE(ContractFixture, "a record with default flags is a record") {
  if (!driver.has(DriverCall::event_record_with_flags)) {
    MESSAGE("skipped: needs cuEventRecordWithFlags");
    return;
  }
  const CUevent event = make_event();
  const CUstream stream = make_stream();
  {
    Gate gate(driver, stream);
    CHECK(driver.try_event_record_with_flags(event, stream, unsigned{CU_EVENT_RECORD_DEFAULT}) ==
          CUDA_SUCCESS);
    CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  }
  driver.event_destroy(event);
  driver.stream_destroy(stream);
}

// Each function's list of return values: CUDA_ERROR_INVALID_HANDLE.
TEST_CASE_FIXTURE(ContractFixture, "a null event is refused") {
  const CUstream stream = make_stream();
  const CUevent none = nullptr;
  CHECK(driver.try_event_record(none, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.try_event_query(none) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.try_event_synchronize(none) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.try_event_destroy(none) == CUDA_ERROR_INVALID_HANDLE);
  driver.stream_destroy(stream);
}

// cuEventElapsedTime is the time between two events, and cuEventRecord overwrites: the latest
// records count.
TEST_CASE_FIXTURE(ContractFixture, "elapsed time is that of the latest records") {
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  const CUstream stream = make_stream();
  float first = -1;
  float second = -1;
  driver.event_record(start, stream);
  driver.event_record(end, stream);
  driver.stream_synchronize(stream);
  CHECK(driver.try_event_elapsed_time(&first, start, end) == CUDA_SUCCESS);
  CHECK(first >= 0);
  {
    Gate gate(driver, stream);
    gate.open();
    driver.event_record(end, stream);
    driver.event_synchronize(end);
  }
  CHECK(driver.try_event_elapsed_time(&second, start, end) == CUDA_SUCCESS);
  CHECK(second > first);
  driver.event_destroy(start);
  driver.event_destroy(end);
  driver.stream_destroy(stream);
}

// cuEventElapsedTime: CUDA_ERROR_NOT_READY where "one or both of them has not yet been completed":
// the first, too.
TEST_CASE_FIXTURE(ContractFixture, "elapsed time is not known before the first event is done") {
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  const CUstream held = make_stream();
  const CUstream other = make_stream();
  float milliseconds = -1;
  {
    Gate gate(driver, held);
    driver.event_record(start, held);
    driver.event_record(end, other);
    driver.event_synchronize(end);
    CHECK(driver.try_event_elapsed_time(&milliseconds, start, end) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(held);
  }
  CHECK(driver.try_event_elapsed_time(&milliseconds, start, end) == CUDA_SUCCESS);
  for (const CUevent event : {start, end}) driver.event_destroy(event);
  for (const CUstream stream : {held, other}) driver.stream_destroy(stream);
}

// cuEventCreate: "Valid flags include" these, and an event takes them together.
TEST_CASE_FIXTURE(ContractFixture, "an event accepts any combination of its flags") {
  for (const unsigned flags : {unsigned{CU_EVENT_DEFAULT}, unsigned{CU_EVENT_BLOCKING_SYNC},
                               unsigned{CU_EVENT_DISABLE_TIMING},
                               unsigned{CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING}}) {
    CUevent event = nullptr;
    CHECK(driver.try_event_create(&event, flags) == CUDA_SUCCESS);
    CHECK(driver.try_event_destroy(event) == CUDA_SUCCESS);
  }
}

// Programming Guide: waiting for and asking an event "will succeed even if the input event is
// associated to a device that is different from the current device".
TEST_CASE_FIXTURE(ContractFixture, "the host waits for an event while another device is current") {
  if (!has_two_devices()) return;
  const CUevent event = make_event();
  const CUstream here = make_stream();
  {
    const SecondContext second(driver);
    driver.ctx_push_current(context);
    Gate gate(driver, here);
    driver.event_record(event, here);
    driver.ctx_pop_current(nullptr);
    CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
    CHECK(driver.try_event_query(event) == CUDA_SUCCESS);
  }
  driver.event_destroy(event);
  driver.stream_destroy(here);
}

// Programming Guide: elapsed time "will fail if the two input events are associated to different
// devices".
TEST_CASE_FIXTURE(ContractFixture, "elapsed time between events of different devices is refused") {
  if (!has_two_devices()) return;
  const CUevent here = make_event(CU_EVENT_DEFAULT);
  driver.event_record(here, CU_STREAM_LEGACY);
  driver.event_synchronize(here);
  const SecondContext second(driver);
  const CUevent there = make_event(CU_EVENT_DEFAULT);
  driver.event_record(there, CU_STREAM_LEGACY);
  driver.event_synchronize(there);
  float milliseconds = -1;
  CHECK(driver.try_event_elapsed_time(&milliseconds, here, there) != CUDA_SUCCESS);
  driver.event_destroy(there);
  driver.ctx_push_current(context);
  driver.event_destroy(here);
  driver.ctx_pop_current(nullptr);
}

}  // namespace event_record_contract_test
