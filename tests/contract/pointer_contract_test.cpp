// SPDX-License-Identifier: Apache-2.0
// What the driver says about an address.
// Source: CUDA Driver API, "Unified Addressing", cuPointerGetAttribute.
#include <cstdlib>
#include <cstring>

#include "contract/contract_driver.hpp"

namespace pointer_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

template <class T>
CUresult ask(Driver& driver, T* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return driver.try_pointer_get_attribute(static_cast<void*>(value), attribute, pointer);
}

/// A value that no answer leaves as it is.
template <class T>
T told(Driver& driver, CUpointer_attribute attribute, CUdeviceptr pointer) {
  T value;
  std::memset(&value, 0xEE, sizeof value);
  CHECK(ask(driver, &value, attribute, pointer) == CUDA_SUCCESS);
  return value;
}

unsigned long long id_of(Driver& driver, CUdeviceptr pointer) {
  return told<unsigned long long>(driver, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
}

}  // namespace

// BUFFER_ID: "Every memory allocation from any of the CUDA memory allocation APIs will have a
// unique ID".
TEST_CASE_FIXTURE(ContractFixture, "each allocation has one unique ID") {
  const CUdeviceptr first = make_memory(4096);
  const CUdeviceptr second = make_memory(4096);
  unsigned char* pinned = make_pinned(4096);
  CHECK(id_of(driver, first) != id_of(driver, second));
  CHECK(id_of(driver, first) != id_of(driver, address_of(pinned)));
  CHECK(id_of(driver, second) != id_of(driver, address_of(pinned)));
  CHECK(id_of(driver, first + 4095) == id_of(driver, first));
  driver.mem_free(first);
  driver.mem_free(second);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// BUFFER_ID: "Subsequent allocations do not reuse IDs from previous freed allocations."
TEST_CASE_FIXTURE(ContractFixture, "the ID of an allocation is not used again") {
  std::vector<unsigned long long> seen;
  for (int i = 0; i < 5; ++i) {
    const CUdeviceptr memory = make_memory(4096);
    const unsigned long long id = id_of(driver, memory);
    for (const unsigned long long other : seen) CHECK(id != other);
    seen.push_back(id);
    driver.mem_free(memory);
  }
}

// IS_MANAGED: "a boolean that indicates whether the pointer points to managed memory or not".
TEST_CASE_FIXTURE(ContractFixture, "neither device memory nor pinned memory is managed") {
  const CUdeviceptr memory = make_memory(4096);
  unsigned char* pinned = make_pinned(4096);
  for (const CUdeviceptr pointer : {memory, address_of(pinned)}) {
    unsigned char answer[8] = {0xEE};  // of whatever width
    CHECK(ask(driver, &answer, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer) == CUDA_SUCCESS);
    CHECK(answer[0] == 0);
  }
  driver.mem_free(memory);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// HOST_POINTER: CUDA_ERROR_INVALID_VALUE "if there exists no host pointer value through which the
// host program may directly access ptr".
TEST_CASE_FIXTURE(ContractFixture, "device memory has no host address") {
  const CUdeviceptr memory = make_memory(4096);
  void* host = nullptr;
  CHECK(ask(driver, &host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_free(memory);
}

// CONTEXT, DEVICE_ORDINAL: where memory "was allocated or registered".
TEST_CASE_FIXTURE(
    ContractFixture,
    "pointer attributes give the context and device of pinned and registered memory") {
  constexpr std::size_t bytes = 64 << 10;
  unsigned char* pinned = make_pinned(bytes);
  void* own = std::aligned_alloc(4096, bytes);
  driver.mem_host_register(own, bytes, 0U);
  for (const CUdeviceptr pointer : {address_of(pinned), address_of(static_cast<char*>(own))}) {
    CHECK(told<CUcontext>(driver, CU_POINTER_ATTRIBUTE_CONTEXT, pointer + 100) == context);
    CHECK(told<int>(driver, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer + 100) == 0);
  }
  driver.mem_host_unregister(own);
  std::free(own);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// MEMORY_TYPE: "If ptr addresses host memory then *data is set to CU_MEMORYTYPE_HOST"; HOST_POINTER
// "will equal the input value".
TEST_CASE_FIXTURE(ContractFixture, "registered memory is host memory, at its own address") {
  constexpr std::size_t bytes = 64 << 10;
  void* own = std::aligned_alloc(4096, bytes);
  driver.mem_host_register(own, bytes, 0U);
  const CUdeviceptr inside = address_of(static_cast<char*>(own)) + bytes - 1;
  CHECK(told<unsigned>(driver, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside) == CU_MEMORYTYPE_HOST);
  CHECK(told<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside) == inside);
  driver.mem_host_unregister(own);
  std::free(own);
}

// cuPointerGetAttribute: CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(ContractFixture, "an attribute that does not exist is refused") {
  const CUdeviceptr memory = make_memory(4096);
  unsigned char answer[64] = {};
  CHECK(ask(driver, &answer, static_cast<CUpointer_attribute>(0), memory) ==
        CUDA_ERROR_INVALID_VALUE);
  driver.mem_free(memory);
}

// DEVICE_POINTER: "If there is no current CUcontext then CUDA_ERROR_INVALID_CONTEXT is returned."
TEST_CASE_FIXTURE(ContractFixture, "the access to an address depends on the current context") {
  const CUdeviceptr memory = make_memory(4096);
  CUdeviceptr answer = 0;
  CUresult without_context = CUDA_SUCCESS;
  std::thread([&] {
    without_context = ask(driver, &answer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory);
  }).join();
  CHECK(without_context == CUDA_ERROR_INVALID_CONTEXT);
  driver.mem_free(memory);
}

// CONTEXT, DEVICE_ORDINAL: of the allocation, whatever is current.
TEST_CASE_FIXTURE(ContractFixture,
                  "pointer attributes give the device of another device's memory") {
  if (!has_two_devices()) return;
  const SecondContext second(driver);
  const CUdeviceptr there = make_memory(4096);
  driver.ctx_push_current(context);
  CHECK(told<CUcontext>(driver, CU_POINTER_ATTRIBUTE_CONTEXT, there) == second.context);
  CHECK(told<int>(driver, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there) == 1);
  CHECK(told<unsigned>(driver, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, there) == CU_MEMORYTYPE_DEVICE);
  driver.ctx_pop_current(nullptr);
  driver.mem_free(there);
}

// DEVICE_POINTER: CUDA_ERROR_INVALID_VALUE if kernels of the current context cannot access ptr;
// cuCtxEnablePeerAccess: "on success all allocations from peerContext will immediately be
// accessible by the current context".
TEST_CASE_FIXTURE(ContractFixture, "memory of another device is accessible with peer access only") {
  if (!has_two_devices()) return;
  const SecondContext second(driver);
  const CUdeviceptr there = make_memory(4096);
  driver.ctx_push_current(context);
  CUdeviceptr answer = 0;
  CHECK(ask(driver, &answer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, there) ==
        CUDA_ERROR_INVALID_VALUE);
  if (driver.try_ctx_enable_peer_access(second.context, 0U) == CUDA_SUCCESS)
    CHECK(told<CUdeviceptr>(driver, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, there) == there);
  driver.ctx_pop_current(nullptr);
  driver.mem_free(there);
}

}  // namespace pointer_contract_test
