// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Memory Operations". Flags lie in pinned memory, which the host
// reads and writes too.
#include <atomic>

#include "contract/contract_driver.hpp"

namespace stream_value_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kVersion = 11070;

struct ValueFixture : ContractFixture {
  ValueFixture() {
    stream = make_stream();
    other = make_stream();
    flag = reinterpret_cast<cuuint32_t*>(make_pinned(4096));
  }
  ~ValueFixture() {
    driver.try_ctx_synchronize();
    driver.try_mem_free_host(flag);
    driver.try_stream_destroy(stream);
    driver.try_stream_destroy(other);
  }

  [[nodiscard]] CUdeviceptr address(std::size_t word = 0) const { return address_of(flag + word); }
  void set(cuuint32_t value, std::size_t word = 0) const {
    std::atomic_ref<cuuint32_t>(flag[word]).store(value);
  }
  [[nodiscard]] cuuint32_t get(std::size_t word = 0) const {
    return std::atomic_ref<cuuint32_t>(flag[word]).load();
  }
  [[nodiscard]] bool has(CUdevice_attribute attribute) const {
    int value = 0;
    driver.try_device_get_attribute(&value, attribute, 0);
    if (value == 0) MESSAGE("skipped: the device has no such operation");
    return value != 0;
  }

  decltype(&::cuStreamWaitValue32) wait32 = CONTRACT_FUNCTION(cuStreamWaitValue32, kVersion);
  decltype(&::cuStreamWaitValue64) wait64 = CONTRACT_FUNCTION(cuStreamWaitValue64, kVersion);
  decltype(&::cuStreamWriteValue32) write32 = CONTRACT_FUNCTION(cuStreamWriteValue32, kVersion);
  decltype(&::cuStreamWriteValue64) write64 = CONTRACT_FUNCTION(cuStreamWriteValue64, kVersion);
  decltype(&::cuStreamBatchMemOp) batch = CONTRACT_FUNCTION(cuStreamBatchMemOp, kVersion);

  CUstream stream = nullptr;
  CUstream other = nullptr;
  cuuint32_t* flag = nullptr;
};

CUstreamBatchMemOpParams write_of(CUdeviceptr address, cuuint32_t value) {
  CUstreamBatchMemOpParams params{};
  params.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  params.writeValue.address = address;
  params.writeValue.value = value;
  return params;
}

}  // namespace

// cuStreamWriteValue32: "Write a value to memory."
TEST_CASE_FIXTURE(ValueFixture, "a stream writes a 32-bit value and no adjacent bytes") {
  set(7, 1);
  CHECK(write32(stream, address(), 5, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(get() == 5);
  CHECK(get(1) == 7);
}

// cuStreamWriteValue64, where the device has 64-bit operations.
TEST_CASE_FIXTURE(ValueFixture, "a stream writes a 64-bit value") {
  if (!has(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)) return;
  CHECK(write64(stream, address(), 0x100000002, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(get() == 2);
  CHECK(get(1) == 1);
}

// cuStreamWriteValue32 is an operation of its stream.
TEST_CASE_FIXTURE(ValueFixture, "a value is written after earlier work of its stream") {
  Gate gate(driver, stream);
  CHECK(write32(stream, address(), 5, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS);
  CHECK(get() == 0);
  gate.open();
  driver.stream_synchronize(stream);
  CHECK(get() == 5);
}

// CU_STREAM_WAIT_VALUE_GEQ: "Wait until (int32_t)(*addr - value) >= 0"
TEST_CASE_FIXTURE(ValueFixture, "a wait for at least a value ends when the host writes it") {
  const CUevent event = make_event();
  CHECK(wait32(stream, address(), 5, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
  driver.event_record(event, stream);
  CHECK(driver.try_event_query(event) == CUDA_ERROR_NOT_READY);
  set(6);
  CHECK(driver.try_event_synchronize(event) == CUDA_SUCCESS);
  driver.event_destroy(event);
}

// CU_STREAM_WAIT_VALUE_GEQ: "this is a cyclic comparison which ignores wraparound"
TEST_CASE_FIXTURE(ValueFixture, "the comparison of a wait for at least a value is cyclic") {
  set(3);
  CHECK(wait32(stream, address(), 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
}

// CU_STREAM_WAIT_VALUE_EQ: "Wait until *addr == value"
TEST_CASE_FIXTURE(ValueFixture, "a wait for equality is not satisfied by a greater value") {
  set(9);
  CHECK(wait32(stream, address(), 5, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  set(5);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
}

// CU_STREAM_WAIT_VALUE_AND: "Wait until (*addr & value) != 0"
TEST_CASE_FIXTURE(ValueFixture, "a wait for bits ends when one of them is set") {
  set(9);
  CHECK(wait32(stream, address(), 6, CU_STREAM_WAIT_VALUE_AND) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  set(4);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
}

// CU_STREAM_WAIT_VALUE_NOR: "Wait until ~(*addr | value) != 0"
TEST_CASE_FIXTURE(ValueFixture, "a wait for a clear bit ends when one is clear") {
  if (!has(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR)) return;
  set(0xf0000000);
  CHECK(wait32(stream, address(), 0x0fffffff, CU_STREAM_WAIT_VALUE_NOR) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  set(0x70000000);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
}

// cuStreamWaitValue32: "Enqueues a synchronization of the stream on the given memory location. Work
// ordered after the operation will block until the given condition on the memory is satisfied."
TEST_CASE_FIXTURE(ValueFixture, "a value written by one stream unblocks another") {
  const CUdeviceptr memory = make_memory(64);
  fill(memory, 1, 64, stream);
  driver.stream_synchronize(stream);
  CHECK(wait32(other, address(), 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  fill(memory, 3, 64, other);
  fill(memory, 2, 64, stream);
  CHECK(write32(stream, address(), 1, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS);
  CHECK(read(memory, 64, other) == bytes_of(64, 3));
  driver.mem_free(memory);
}

// CUDA Driver API 10.1, Stream memory operations: without support the functions return
// CUDA_ERROR_NOT_SUPPORTED.
TEST_CASE_FIXTURE(ValueFixture, "a device without memory operations refuses them, and works on") {
  int newer = 0;
  int older = 0;
  driver.try_device_get_attribute(&newer, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0);
  driver.try_device_get_attribute(&older, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0);
  if (newer != 0 || older != 0) {
    MESSAGE("skipped: the device has memory operations");
    return;
  }
  set(7);
  CUstreamBatchMemOpParams write = write_of(address(), 5);
  CHECK(wait32(stream, address(), 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(write32(stream, address(), 5, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(batch(stream, 1, &write, 0) == CUDA_ERROR_NOT_SUPPORTED);
  driver.stream_synchronize(stream);
  CHECK(get() == 7);
}

// cuStreamWaitValue32: addr is "The memory location to wait on", of 4 bytes.
TEST_CASE_FIXTURE(ValueFixture, "values must be aligned to their size") {
  CHECK(wait32(stream, address() + 2, 0, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_ERROR_INVALID_VALUE);
  CHECK(write32(stream, address() + 1, 0, CU_STREAM_WRITE_VALUE_DEFAULT) ==
        CUDA_ERROR_INVALID_VALUE);
  driver.stream_synchronize(stream);
}

// CUstreamWaitValue_flags, CUstreamWriteValue_flags
TEST_CASE_FIXTURE(ValueFixture, "unknown flags of waits and writes are refused") {
  CHECK(wait32(stream, address(), 0, 0x100) == CUDA_ERROR_INVALID_VALUE);
  CHECK(write32(stream, address(), 0, 0x100) == CUDA_ERROR_INVALID_VALUE);
}

// cuStreamBatchMemOp: "Batched operations will be enqueued in the order they appear in the array."
TEST_CASE_FIXTURE(ValueFixture, "the operations of a batch execute in their order") {
  CUstreamBatchMemOpParams params[] = {write_of(address(), 1), write_of(address(), 2),
                                       write_of(address(1), 3)};
  CHECK(batch(stream, 3, params, 0) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(get() == 2);
  CHECK(get(1) == 3);
}

// cuStreamBatchMemOp: count "must be less than 256"
TEST_CASE_FIXTURE(ValueFixture, "a batch has fewer than 256 operations") {
  std::vector<CUstreamBatchMemOpParams> params(256, write_of(address(), 1));
  CHECK(batch(stream, 256, params.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(batch(stream, 255, params.data(), 0) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
}

}  // namespace stream_value_contract_test
