// SPDX-License-Identifier: Apache-2.0
// Waits of streams for events.
// Source: CUDA Driver API, "Stream Management", cuStreamWaitEvent.
#include "contract/contract_driver.hpp"

namespace stream_wait_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A stream to hold up, and two to wait; and an event for each.
struct WaitFixture : ContractFixture {
  WaitFixture() {
    for (CUstream& stream : streams) stream = make_stream();
    for (CUevent& event : events) event = make_event();
  }
  ~WaitFixture() {
    driver.try_ctx_synchronize();
    for (const CUevent event : events) driver.try_event_destroy(event);
    for (const CUstream stream : streams) driver.try_stream_destroy(stream);
  }
  void record(std::size_t event, std::size_t stream) const {
    driver.event_record(events[event], streams[stream]);
  }
  void wait(std::size_t stream, std::size_t event) const {
    driver.stream_wait_event(streams[stream], events[event], 0U);
  }
  [[nodiscard]] CUresult query(std::size_t stream) const {
    return driver.try_stream_query(streams[stream]);
  }

  CUstream streams[3] = {};
  CUevent events[3] = {};
};

}  // namespace

// "Makes all future work submitted to hStream wait"; not what was submitted before.
TEST_CASE_FIXTURE(WaitFixture, "work before a wait is not held up by it") {
  Gate gate(driver, streams[0]);
  record(0, 0);
  record(1, 1);
  wait(1, 0);
  CHECK(driver.try_event_synchronize(events[1]) == CUDA_SUCCESS);
  record(2, 1);
  CHECK(driver.try_event_query(events[2]) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(events[2]) == CUDA_SUCCESS);
}

// "Makes all future work submitted to hStream wait for all work captured in hEvent": each wait
// counts.
TEST_CASE_FIXTURE(WaitFixture, "a later wait does not replace an earlier one") {
  Gate gate(driver, streams[0]);
  record(0, 0);
  record(1, 1);
  wait(2, 0);
  wait(2, 1);
  driver.event_synchronize(events[1]);
  CHECK(query(2) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(streams[2]) == CUDA_SUCCESS);
  CHECK(query(0) == CUDA_SUCCESS);
}

// cuEventRecord captures "the contents of hStream", which a wait is a part of.
TEST_CASE_FIXTURE(WaitFixture, "order is transitive through a stream that only waits") {
  Gate gate(driver, streams[0]);
  record(0, 0);
  wait(1, 0);
  record(1, 1);
  wait(2, 1);
  CHECK(query(2) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(streams[2]) == CUDA_SUCCESS);
  CHECK(driver.try_event_query(events[0]) == CUDA_SUCCESS);
}

// An event is not used up by who waits for it.
TEST_CASE_FIXTURE(WaitFixture, "several streams wait for one event") {
  Gate gate(driver, streams[0]);
  record(0, 0);
  wait(1, 0);
  wait(2, 0);
  CHECK(query(1) == CUDA_ERROR_NOT_READY);
  CHECK(query(2) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(streams[1]) == CUDA_SUCCESS);
  CHECK(driver.try_stream_synchronize(streams[2]) == CUDA_SUCCESS);
}

// Work captured in an event is done before what the same stream does later; waiting for it adds
// nothing.
TEST_CASE_FIXTURE(WaitFixture, "a stream may wait for its own event") {
  const CUdeviceptr memory = make_memory(64);
  fill(memory, 1, 64, streams[0]);
  record(0, 0);
  wait(0, 0);
  fill(memory, 2, 64, streams[0]);
  CHECK(read(memory, 64, streams[0]) == bytes_of(64, 2));
  driver.mem_free(memory);
}

// cuEventRecord: calls "will overwrite the previously captured state"; cuStreamWaitEvent uses "the
// most recently captured state".
TEST_CASE_FIXTURE(WaitFixture, "a wait applies to the latest record only") {
  Gate gate(driver, streams[0]);
  record(0, 0);
  record(0, 1);
  wait(2, 0);
  CHECK(driver.try_stream_synchronize(streams[2]) == CUDA_SUCCESS);
  CHECK(query(0) == CUDA_ERROR_NOT_READY);
  gate.open();
  driver.stream_synchronize(streams[0]);
}

// cuStreamCreateWithPriority: priorities do not "provide any other functional guarantee on
// execution order", so that order must not suffer from them.
TEST_CASE_FIXTURE(WaitFixture, "a stream of the greatest priority still waits for an event") {
  int least = 0;
  int greatest = 0;
  driver.ctx_get_stream_priority_range(&least, &greatest);
  CUstream urgent = nullptr;
  driver.stream_create_with_priority(&urgent, unsigned{CU_STREAM_NON_BLOCKING}, greatest);
  const CUdeviceptr memory = make_memory(64);
  {
    Gate gate(driver, streams[0]);
    fill(memory, 1, 64, streams[0]);
    record(0, 0);
    driver.stream_wait_event(urgent, events[0], 0U);
    fill(memory, 2, 64, urgent);
    CHECK(driver.try_stream_query(urgent) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(read(memory, 64, urgent) == bytes_of(64, 2));
  }
  driver.mem_free(memory);
  driver.stream_destroy(urgent);
}

// "Stream synchronization behavior": blocking streams wait for what is on the legacy stream, and
// a wait is.
TEST_CASE_FIXTURE(WaitFixture, "a wait on the legacy stream holds blocking streams up") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  {
    Gate gate(driver, streams[0]);
    record(0, 0);
    driver.stream_wait_event(CU_STREAM_LEGACY, events[0], 0U);
    driver.event_record(events[1], blocking);
    CHECK(driver.try_event_query(events[1]) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(driver.try_event_synchronize(events[1]) == CUDA_SUCCESS);
    CHECK(driver.try_event_query(events[0]) == CUDA_SUCCESS);
  }
  driver.stream_destroy(blocking);
}

// "hEvent - Event to wait on (may not be NULL)"; CUDA_ERROR_INVALID_HANDLE.
TEST_CASE_FIXTURE(WaitFixture, "a stream waits for an event, not for null") {
  CHECK(driver.try_stream_wait_event(streams[0], nullptr, 0U) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(driver.try_stream_synchronize(streams[0]) == CUDA_SUCCESS);
}

}  // namespace stream_wait_contract_test
