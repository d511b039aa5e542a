// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Memory Management", "Unified Addressing".
#include <cstring>

#include "contract/contract_driver.hpp"

namespace memory_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

template <class T>
T attribute(Driver& driver, CUpointer_attribute attribute, CUdeviceptr pointer) {
  T value{};
  driver.pointer_get_attribute(static_cast<void*>(&value), attribute, pointer);
  return value;
}

CUresult ask_type(Driver& driver, CUdeviceptr pointer) {
  unsigned type = 0;
  return driver.try_pointer_get_attribute(static_cast<void*>(&type),
                                          CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
}

}  // namespace

// "Memory Management", cuMemAlloc: "suitably aligned for any kind of variable"; CUDA C++
// Programming Guide, "Device Memory Accesses": at least 256 bytes.
TEST_CASE_FIXTURE(ContractFixture, "allocations are aligned to 256 bytes at least, and distinct") {
  const CUdeviceptr first = make_memory(1);
  const CUdeviceptr second = make_memory(3 << 20);
  CHECK(first % 256 == 0);
  CHECK(second % 256 == 0);
  CHECK(first != second);
  driver.mem_free(first);
  driver.mem_free(second);
}

// cuMemAlloc: "If bytesize is 0, cuMemAlloc() returns CUDA_ERROR_INVALID_VALUE."
TEST_CASE_FIXTURE(ContractFixture, "an allocation of nothing is refused") {
  CUdeviceptr pointer = 0;
  CHECK(driver.try_mem_alloc(&pointer, std::size_t{0}) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY; cuMemGetInfo: free never exceeds total.
TEST_CASE_FIXTURE(ContractFixture,
                  "a request larger than the device's memory fails and has no other effect") {
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK(driver.try_mem_get_info(&free, &total) == CUDA_SUCCESS);
  CHECK(free <= total);
  CUdeviceptr pointer = 0;
  CHECK(driver.try_mem_alloc(&pointer, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver.try_mem_alloc(&pointer, std::size_t{512}) == CUDA_SUCCESS);
  driver.mem_free(pointer);
}

// cuMemFree: "dptr, which must have been returned by a previous call" to an allocation function;
// CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(ContractFixture, "a free accepts only the start of a live allocation") {
  const CUdeviceptr pointer = make_memory(4096);
  int local = 0;
  CHECK(driver.try_mem_free(pointer + 256) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_free(address_of(&local)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_free(pointer) == CUDA_SUCCESS);
  CHECK(driver.try_mem_free(pointer) == CUDA_ERROR_INVALID_VALUE);
}

// cuPointerGetAttribute: MEMORY_TYPE, DEVICE_ORDINAL, CONTEXT, DEVICE_POINTER, RANGE_START_ADDR,
// RANGE_SIZE.
TEST_CASE_FIXTURE(ContractFixture, "a pointer into device memory resolves to its allocation") {
  const CUdeviceptr start = make_memory(4096);
  for (const CUdeviceptr pointer : {start, start + 100}) {
    CHECK(attribute<unsigned>(driver, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) ==
          CU_MEMORYTYPE_DEVICE);
    CHECK(attribute<int>(driver, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) == 0);
    CHECK(attribute<CUcontext>(driver, CU_POINTER_ATTRIBUTE_CONTEXT, pointer) == context);
    CHECK(attribute<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) == pointer);
    CHECK(attribute<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) == start);
    CHECK(attribute<std::size_t>(driver, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) >= 4096);
  }
  driver.mem_free(start);
  CHECK(ask_type(driver, start) == CUDA_ERROR_INVALID_VALUE);
}

// cuPointerGetAttribute: "If ptr was not allocated by, mapped by, or registered with a CUcontext
// which uses unified virtual addressing then CUDA_ERROR_INVALID_VALUE is returned."
TEST_CASE_FIXTURE(ContractFixture, "a pointer into pageable memory is unknown") {
  const std::vector<char> pageable(100000);
  CHECK(ask_type(driver, address_of(pageable.data())) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemHostAlloc: "accessible to the device"; "the device pointer ... is always equal to the
// returned host pointer".
TEST_CASE_FIXTURE(ContractFixture, "pinned memory is host memory that the device can access") {
  unsigned char* pinned = make_pinned(4096, 7);
  const CUdeviceptr pointer = address_of(pinned + 10);
  CHECK(pinned[4095] == 7);
  CHECK(attribute<unsigned>(driver, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) ==
        CU_MEMORYTYPE_HOST);
  CHECK(attribute<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) == pointer);
  CHECK(attribute<void*>(driver, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer) == pinned + 10);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned)) == CUDA_SUCCESS);
  CHECK(ask_type(driver, address_of(pinned)) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemHostAlloc, cuMemFreeHost: CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(ContractFixture,
                  "pinned memory is allocated with known flags and freed by its start") {
  void* pointer = nullptr;
  CHECK(driver.try_mem_host_alloc(&pointer, std::size_t{4096}, 0x80U) == CUDA_ERROR_INVALID_VALUE);
  int local = 0;
  CHECK(driver.try_mem_free_host(static_cast<void*>(&local)) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemHostRegister: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED; cuMemHostUnregister:
// CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED.
TEST_CASE_FIXTURE(ContractFixture, "host memory is registered once and unregistered once") {
  constexpr std::size_t bytes = 64 << 10;
  void* memory = std::aligned_alloc(4096, bytes);
  std::memset(memory, 3, bytes);
  CHECK(driver.try_mem_host_unregister(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(driver.try_mem_host_register(memory, bytes, 0U) == CUDA_SUCCESS);
  CHECK(ask_type(driver, address_of(static_cast<char*>(memory) + 100)) == CUDA_SUCCESS);
  CHECK(driver.try_mem_host_register(memory, bytes, 0U) ==
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(driver.try_mem_host_unregister(memory) == CUDA_SUCCESS);
  CHECK(driver.try_mem_host_unregister(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(static_cast<char*>(memory)[bytes - 1] == 3);
  std::free(memory);
}

}  // namespace memory_contract_test
