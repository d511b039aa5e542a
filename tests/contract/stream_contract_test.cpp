// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Management", "Stream synchronization behavior", "Execution
// Control".
#include "contract/contract_driver.hpp"

namespace stream_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

void CUDA_CB note(void* flag) {
  *static_cast<std::atomic<bool>*>(flag) = true;
}

}  // namespace

// cuCtxGetStreamPriorityRange: "lower numbers imply greater priorities";
// cuStreamCreateWithPriority: out of range is clamped.
TEST_CASE_FIXTURE(ContractFixture, "priorities have a range, and others are clamped to it") {
  int least = -1000;
  int greatest = 1000;
  CHECK(driver.try_ctx_get_stream_priority_range(&least, &greatest) == CUDA_SUCCESS);
  CHECK(greatest <= least);
  for (const int priority : {least, greatest, 1000, -1000}) {
    CUstream stream = nullptr;
    CHECK(driver.try_stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING},
                                                 priority) == CUDA_SUCCESS);
    driver.stream_destroy(stream);
  }
}

// cuStreamCreateWithPriority: CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(ContractFixture, "a stream is made with known flags") {
  CUstream stream = nullptr;
  CHECK(driver.try_stream_create_with_priority(&stream, 0x80U, 0) == CUDA_ERROR_INVALID_VALUE);
}

// cuStreamQuery: "CUDA_SUCCESS if all operations in the stream ... have completed, or
// CUDA_ERROR_NOT_READY if not."
TEST_CASE_FIXTURE(ContractFixture,
                  "a stream query succeeds when the stream's work is done, and not before") {
  const CUstream stream = make_stream();
  CHECK(driver.try_stream_query(stream) == CUDA_SUCCESS);
  {
    Gate gate(driver, stream);
    CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
  }
  CHECK(driver.try_stream_query(stream) == CUDA_SUCCESS);
  driver.stream_destroy(stream);
}

// Programming Guide, "Streams": operations of one stream execute in order.
TEST_CASE_FIXTURE(ContractFixture, "work of one stream runs in order") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  for (unsigned char value = 1; value <= 50; ++value) fill(memory, value, 64, stream);
  CHECK(read(memory, 64, stream) == bytes_of(64, 50));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuCtxSynchronize: "Blocks until the current context has completed all preceding requested tasks."
TEST_CASE_FIXTURE(ContractFixture, "synchronizing the context finishes every stream") {
  const CUstream streams[] = {make_stream(), make_stream(CU_STREAM_DEFAULT)};
  unsigned char* pinned = make_pinned(2);
  fill(address_of(pinned), 1, 1, streams[0]);
  fill(address_of(pinned + 1), 2, 1, streams[1]);
  CHECK(driver.try_ctx_synchronize() == CUDA_SUCCESS);
  CHECK(pinned[0] == 1);
  CHECK(pinned[1] == 2);
  for (const CUstream stream : streams) {
    CHECK(driver.try_stream_query(stream) == CUDA_SUCCESS);
    driver.stream_destroy(stream);
  }
  driver.mem_free_host(static_cast<void*>(pinned));
}

// "Stream synchronization behavior", legacy default stream: it "first waits on all blocking
// streams".
TEST_CASE_FIXTURE(ContractFixture, "the legacy stream waits for blocking streams") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUevent event = make_event();
  Gate gate(driver, blocking);
  driver.event_record(event, CU_STREAM_LEGACY);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(blocking) == CUDA_SUCCESS);
  driver.event_destroy(event);
  driver.stream_destroy(blocking);
}

// "Stream synchronization behavior": then "all blocking streams wait on the legacy stream".
TEST_CASE_FIXTURE(ContractFixture, "blocking streams wait for the legacy stream") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUevent event = make_event();
  Gate gate(driver, CU_STREAM_LEGACY);
  driver.event_record(event, blocking);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  CHECK(driver.try_stream_synchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
  driver.event_destroy(event);
  driver.stream_destroy(blocking);
}

// "Stream synchronization behavior": non-blocking streams do not synchronize with the legacy
// stream.
TEST_CASE_FIXTURE(ContractFixture,
                  "non-blocking streams and the legacy stream do not wait for each other") {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  Gate gate(driver, stream);
  driver.event_record(event, CU_STREAM_LEGACY);
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
  driver.event_destroy(event);
  driver.stream_destroy(stream);
}

// "Stream synchronization behavior": the per-thread default stream "is not a non-blocking stream
// and will synchronize with the legacy default stream if both are used".
TEST_CASE_FIXTURE(ContractFixture, "the per-thread stream is a blocking stream") {
  const CUevent event = make_event();
  Gate gate(driver, CU_STREAM_PER_THREAD);
  driver.event_record(event, CU_STREAM_LEGACY);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  driver.event_destroy(event);
}

// "Stream Management": stream 0 is the legacy stream unless the program is built otherwise.
TEST_CASE_FIXTURE(ContractFixture, "the null stream is the legacy stream") {
  Gate gate(driver, nullptr);
  CHECK(driver.try_stream_query(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(nullptr) == CUDA_SUCCESS);
}

// cuStreamDestroy: "the function will return immediately and the resources ... will be released
// automatically once the device has completed all work".
TEST_CASE_FIXTURE(ContractFixture, "a destroyed stream finishes its work") {
  const CUstream stream = make_stream();
  unsigned char* pinned = make_pinned(1);
  Gate gate(driver, stream);
  fill(address_of(pinned), 5, 1, stream);
  CHECK(driver.try_stream_destroy(stream) == CUDA_SUCCESS);
  CHECK(pinned[0] == 0);
  gate.open();
  CHECK(driver.try_ctx_synchronize() == CUDA_SUCCESS);
  CHECK(pinned[0] == 5);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// "Execution Control", cuLaunchHostFunc: "called after currently enqueued work and will block work
// added after it".
TEST_CASE_FIXTURE(ContractFixture, "a host function runs in the order of its stream") {
  struct Seen {
    unsigned char* byte;
    int value;
  };
  const CUstream stream = make_stream();
  Seen seen{make_pinned(1), -1};
  fill(address_of(seen.byte), 1, 1, stream);
  driver.launch_host_func(
      stream,
      [](void* data) {
        auto& s = *static_cast<Seen*>(data);
        s.value = *s.byte;
      },
      static_cast<void*>(&seen));
  fill(address_of(seen.byte), 2, 1, stream);
  driver.stream_synchronize(stream);
  CHECK(seen.value == 1);
  CHECK(*seen.byte == 2);
  driver.mem_free_host(static_cast<void*>(seen.byte));
  driver.stream_destroy(stream);
}

// cuLaunchHostFunc on a stream that waits for another: ordered as any other work.
TEST_CASE_FIXTURE(ContractFixture,
                  "a host function is not called before what its stream waits for") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  std::atomic<bool> called{false};
  Gate gate(driver, first);
  driver.event_record(event, first);
  driver.stream_wait_event(second, event, 0U);
  driver.launch_host_func(second, &note, static_cast<void*>(&called));
  CHECK(driver.try_stream_query(second) == CUDA_ERROR_NOT_READY);
  CHECK_FALSE(called);
  gate.open();
  driver.stream_synchronize(second);
  CHECK(called);
  driver.event_destroy(event);
  driver.stream_destroy(first);
  driver.stream_destroy(second);
}

}  // namespace stream_contract_test
