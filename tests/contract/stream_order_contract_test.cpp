// SPDX-License-Identifier: Apache-2.0
// Which streams wait for which, without an event between them.
// Source: CUDA Driver API, "Stream synchronization behavior", "Stream Management"; CUDA C++
// Programming Guide, "Streams".
#include "contract/contract_driver.hpp"

namespace stream_order_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// cuStreamQuery from a thread of its own in which `context` is current.
CUresult query_elsewhere(const ContractFixture& fixture, CUstream stream) {
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    fixture.driver.ctx_push_current(fixture.context);
    result = fixture.driver.try_stream_query(stream);
    fixture.driver.ctx_pop_current(nullptr);
  }).join();
  return result;
}

}  // namespace

// Programming Guide, "Streams": "Different streams, on the other hand, may execute their commands
// out of order with respect to one another or concurrently"; blocking ones too.
TEST_CASE_FIXTURE(ContractFixture, "blocking streams do not wait for each other") {
  const CUstream held = make_stream(CU_STREAM_DEFAULT);
  const CUstream other = make_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = make_memory(64);
  {
    Gate gate(driver, held);
    fill(memory, 1, 64, other);
    CHECK(driver.try_stream_synchronize(other) == CUDA_SUCCESS);
    CHECK(driver.try_stream_query(held) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(held);
  }
  driver.mem_free(memory);
  driver.stream_destroy(held);
  driver.stream_destroy(other);
}

// Programming Guide, "Implicit Synchronization": two commands from different streams cannot run
// concurrently if a CUDA operation on the NULL stream is submitted in-between.
TEST_CASE_FIXTURE(ContractFixture, "work on the legacy stream separates blocking streams") {
  const CUstream before = make_stream(CU_STREAM_DEFAULT);
  const CUstream after = make_stream(CU_STREAM_DEFAULT);
  const CUevent event = make_event();
  const CUdeviceptr memory = make_memory(64);
  {
    Gate gate(driver, before);
    fill(memory, 1, 64, CU_STREAM_LEGACY);
    driver.event_record(event, after);
    CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
    gate.open();
    CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
    CHECK(driver.try_stream_query(before) == CUDA_SUCCESS);
  }
  driver.mem_free(memory);
  driver.event_destroy(event);
  driver.stream_destroy(before);
  driver.stream_destroy(after);
}

// CU_STREAM_NON_BLOCKING: "work running in the created stream may run concurrently with work in
// stream 0 (the NULL stream)".
TEST_CASE_FIXTURE(ContractFixture, "the legacy stream does not hold non-blocking streams up") {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = make_memory(64);
  {
    Gate gate(driver, CU_STREAM_LEGACY);
    fill(memory, 1, 64, stream);
    CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
    CHECK(driver.try_stream_query(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(CU_STREAM_LEGACY);
  }
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// "Stream synchronization behavior", per-thread default stream: it "does not synchronize with other
// streams (just like explicitly created streams)".
TEST_CASE_FIXTURE(ContractFixture, "the per-thread stream does not hold other streams up") {
  const CUdeviceptr memory = make_memory(64);
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    const CUstream stream = make_stream(flags);
    Gate gate(driver, CU_STREAM_PER_THREAD);
    fill(memory, 1, 64, stream);
    CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
    CHECK(driver.try_stream_query(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(CU_STREAM_PER_THREAD);
    driver.stream_destroy(stream);
  }
  driver.mem_free(memory);
}

// "Stream synchronization behavior": the per-thread default stream is "local to both the thread and
// the CUcontext".
TEST_CASE_FIXTURE(ContractFixture, "CU_STREAM_PER_THREAD means another stream in each thread") {
  Gate gate(driver, CU_STREAM_PER_THREAD);
  CHECK(query_elsewhere(*this, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
}

// Programming Guide, "Default Stream": "each device has a single NULL stream used for all host
// threads".
TEST_CASE_FIXTURE(ContractFixture, "the legacy stream is the same in all threads") {
  Gate gate(driver, CU_STREAM_LEGACY);
  CHECK(query_elsewhere(*this, CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
  CHECK(query_elsewhere(*this, CU_STREAM_LEGACY) == CUDA_SUCCESS);
}

// "Stream synchronization behavior": the legacy default stream "synchronizes with all other streams
// in the same CUcontext except for non-blocking streams".
TEST_CASE_FIXTURE(ContractFixture, "the legacy stream does not concern another device's streams") {
  if (!has_two_devices()) return;
  const SecondContext second(driver);
  const CUstream there = make_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = make_memory(64);
  driver.ctx_push_current(context);
  {
    Gate gate(driver, CU_STREAM_LEGACY);
    driver.ctx_pop_current(nullptr);
    fill(memory, 1, 64, there);
    CHECK(driver.try_stream_synchronize(there) == CUDA_SUCCESS);
    fill(memory, 2, 64, CU_STREAM_LEGACY);
    CHECK(driver.try_stream_synchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
    driver.ctx_push_current(context);
    CHECK(driver.try_stream_query(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(CU_STREAM_LEGACY);
  }
  driver.ctx_pop_current(nullptr);
  driver.mem_free(memory);
  driver.stream_destroy(there);
}

// cuCtxSynchronize: "Blocks until the current context has completed all preceding requested tasks";
// those of another context are not waited for.
TEST_CASE_FIXTURE(ContractFixture, "synchronizing a context does not wait for another device") {
  if (!has_two_devices()) return;
  const CUstream here = make_stream();
  {
    const SecondContext second(driver);
    driver.ctx_push_current(context);
    Gate gate(driver, here);
    driver.ctx_pop_current(nullptr);
    CHECK(driver.try_ctx_synchronize() == CUDA_SUCCESS);
    driver.ctx_push_current(context);
    CHECK(driver.try_stream_query(here) == CUDA_ERROR_NOT_READY);
    gate.open();
    driver.stream_synchronize(here);
    driver.ctx_pop_current(nullptr);
  }
  driver.stream_destroy(here);
}

// Programming Guide, "Streams": commands that are "possibly issued by different host threads ...
// execute in order".
TEST_CASE_FIXTURE(ContractFixture, "a stream keeps the order of calls from different threads") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  for (unsigned char value = 1; value <= 20; ++value) {
    fill(memory, 0, 64, stream);
    std::thread([&] {
      driver.ctx_push_current(context);
      fill(memory, value, 64, stream);
      driver.ctx_pop_current(nullptr);
    }).join();
  }
  CHECK(read(memory, 64, stream) == bytes_of(64, 20));
  driver.mem_free(memory);
  driver.stream_destroy(stream);
}

// cuCtxGetStreamPriorityRange: "A NULL may be passed in ... if the value is not desired."
TEST_CASE_FIXTURE(ContractFixture, "either end of the priority range can be queried alone") {
  int least = 0;
  int greatest = 0;
  driver.ctx_get_stream_priority_range(&least, &greatest);
  int alone = -1000;
  CHECK(driver.try_ctx_get_stream_priority_range(&alone, nullptr) == CUDA_SUCCESS);
  CHECK(alone == least);
  alone = -1000;
  CHECK(driver.try_ctx_get_stream_priority_range(nullptr, &alone) == CUDA_SUCCESS);
  CHECK(alone == greatest);
}

// cuCtxGetStreamPriorityRange: "'0' in both ... if the current context's device does not support
// stream priorities".
TEST_CASE_FIXTURE(ContractFixture, "a device has several priorities if it reports them") {
  int supported = -1;
  driver.device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 0);
  int least = -1000;
  int greatest = -1000;
  driver.ctx_get_stream_priority_range(&least, &greatest);
  if (supported == 1) {
    CHECK(greatest < least);
  } else {
    CHECK(least == 0);
    CHECK(greatest == 0);
  }
}

}  // namespace stream_order_contract_test
