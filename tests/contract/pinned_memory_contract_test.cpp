// SPDX-License-Identifier: Apache-2.0
// Host memory that the driver allocates, or pins for its owner.
// Source: CUDA Driver API, "Memory Management", cuMemHostAlloc, cuMemHostRegister; "Unified
// Addressing".
#include <cstdlib>
#include <cstring>

#include "contract/contract_driver.hpp"

namespace pinned_memory_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kPart = 64 << 10;

/// Pageable memory of two parts, of whole pages each; what a case registers, it unregisters.
struct HostMemoryFixture : ContractFixture {
  HostMemoryFixture()
      : memory(static_cast<unsigned char*>(std::aligned_alloc(std::size_t{64} << 10, 2 * kPart))) {
    std::memset(memory, 1, 2 * kPart);
  }
  ~HostMemoryFixture() { std::free(memory); }

  [[nodiscard]] CUresult pin(std::size_t offset, std::size_t bytes, unsigned flags = 0) const {
    return driver.try_mem_host_register(static_cast<void*>(memory + offset), bytes, flags);
  }
  [[nodiscard]] CUresult unpin(std::size_t offset) const {
    return driver.try_mem_host_unregister(static_cast<void*>(memory + offset));
  }
  /// Whether CUDA knows that byte.
  [[nodiscard]] bool is_pinned(std::size_t offset) const {
    unsigned type = 0;
    return driver.try_pointer_get_attribute(static_cast<void*>(&type),
                                            CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                            address_of(memory + offset)) == CUDA_SUCCESS;
  }

  unsigned char* memory;
};

}  // namespace

// cuMemHostAlloc: "All of these flags are orthogonal to one another".
TEST_CASE_FIXTURE(ContractFixture, "pinned memory is allocated with any combination of its flags") {
  constexpr unsigned all =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  for (unsigned flags = 0; flags <= all; ++flags) {
    void* pointer = nullptr;
    CHECK(driver.try_mem_host_alloc(&pointer, std::size_t{4096}, flags) == CUDA_SUCCESS);
    std::memset(pointer, 1, 4096);
    CHECK(driver.try_mem_free_host(pointer) == CUDA_SUCCESS);
  }
}

// cuMemFreeHost: "p, which must have been returned by a previous call".
TEST_CASE_FIXTURE(ContractFixture, "only the start of a live pinned allocation frees it") {
  unsigned char* pinned = make_pinned(8192);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned + 4096)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned)) == CUDA_SUCCESS);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned)) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemFree: "dptr, which must have been returned by" an allocation of device memory.
TEST_CASE_FIXTURE(ContractFixture, "pinned memory is not freed as device memory") {
  unsigned char* pinned = make_pinned(4096);
  CHECK(driver.try_mem_free(address_of(pinned)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned)) == CUDA_SUCCESS);
}

// cuMemFreeHost: "p, which must have been returned by" an allocation of host memory.
TEST_CASE_FIXTURE(ContractFixture, "device memory is not freed as pinned memory") {
  const CUdeviceptr memory = make_memory(4096);
  CHECK(driver.try_mem_free_host(reinterpret_cast<void*>(memory)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_free(memory) == CUDA_SUCCESS);
}

// cuMemHostRegister: memory that it pins "must be unregistered with cuMemHostUnregister()".
TEST_CASE_FIXTURE(HostMemoryFixture, "registered memory is not freed as pinned memory") {
  CHECK(pin(0, kPart) == CUDA_SUCCESS);
  CHECK(driver.try_mem_free_host(static_cast<void*>(memory)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(is_pinned(0));
  CHECK(unpin(0) == CUDA_SUCCESS);
}

// cuMemHostAlloc: its memory "must be freed with cuMemFreeHost()".
TEST_CASE_FIXTURE(ContractFixture, "allocated memory cannot be unregistered") {
  unsigned char* pinned = make_pinned(4096, 3);
  CHECK(driver.try_mem_host_unregister(static_cast<void*>(pinned)) != CUDA_SUCCESS);
  CHECK(pinned[4095] == 3);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned)) == CUDA_SUCCESS);
}

// cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY.
TEST_CASE_FIXTURE(ContractFixture, "a request for more pinned memory than the host has fails") {
  void* pointer = nullptr;
  CHECK(driver.try_mem_host_alloc(&pointer, std::size_t{1} << 52, 0U) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver.try_mem_host_alloc(&pointer, std::size_t{4096}, 0U) == CUDA_SUCCESS);
  driver.mem_free_host(pointer);
}

// cuMemHostAlloc: "all host memory allocated using cuMemHostAlloc() will automatically be
// immediately accessible to all contexts on all devices which support unified addressing".
TEST_CASE_FIXTURE(ContractFixture, "pinned memory belongs to all devices") {
  if (!has_two_devices()) return;
  unsigned char* pinned = make_pinned(4096);
  {
    const SecondContext second(driver);
    const CUstream there = make_stream();
    fill(address_of(pinned), 9, 4096, there);
    driver.stream_synchronize(there);
    driver.stream_destroy(there);
  }
  CHECK(pinned[0] == 9);
  CHECK(pinned[4095] == 9);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// cuMemHostRegister: "All of these flags are orthogonal to one another"; CUDA_ERROR_INVALID_VALUE
// for what is none.
TEST_CASE_FIXTURE(HostMemoryFixture, "memory is registered with known flags in any combination") {
  constexpr unsigned all = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  for (unsigned flags = 0; flags <= all; ++flags) {
    CHECK(pin(0, kPart, flags) == CUDA_SUCCESS);
    CHECK(unpin(0) == CUDA_SUCCESS);
  }
  CHECK(pin(0, kPart, 0x80U) == CUDA_ERROR_INVALID_VALUE);
  CHECK_FALSE(is_pinned(0));
}

// CU_MEMHOSTREGISTER_READ_ONLY: CUDA_ERROR_NOT_SUPPORTED on a device without
// CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED.
TEST_CASE_FIXTURE(HostMemoryFixture, "memory is registered as read-only where the device can") {
  int can = -1;
  driver.device_get_attribute(&can, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0);
  const CUresult result = pin(0, kPart, CU_MEMHOSTREGISTER_READ_ONLY);
  CHECK(result == (can == 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
  if (result == CUDA_SUCCESS) CHECK(unpin(0) == CUDA_SUCCESS);
}

// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: of a range that overlaps one that is.
TEST_CASE_FIXTURE(HostMemoryFixture, "a range that is registered in part cannot be registered") {
  CHECK(pin(kPart / 2, kPart) == CUDA_SUCCESS);
  CHECK(pin(0, kPart) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(pin(kPart, kPart) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(pin(0, 2 * kPart) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(unpin(kPart / 2) == CUDA_SUCCESS);
}

// cuMemHostRegister: the range is added "to the same tracking mechanism as cuMemHostAlloc", where
// allocated memory is already.
TEST_CASE_FIXTURE(ContractFixture, "pinned allocations cannot be registered") {
  unsigned char* pinned = make_pinned(4096);
  CHECK(driver.try_mem_host_register(static_cast<void*>(pinned), std::size_t{4096}, 0U) !=
        CUDA_SUCCESS);
  CHECK(driver.try_mem_free_host(static_cast<void*>(pinned)) == CUDA_SUCCESS);
}

// cuMemHostRegister pins "the memory range specified by p and bytesize", and no other.
TEST_CASE_FIXTURE(HostMemoryFixture, "neighboring ranges are registered independently") {
  CHECK(pin(0, kPart) == CUDA_SUCCESS);
  CHECK_FALSE(is_pinned(kPart));
  CHECK(pin(kPart, kPart) == CUDA_SUCCESS);
  CHECK(unpin(0) == CUDA_SUCCESS);
  CHECK_FALSE(is_pinned(0));
  CHECK(is_pinned(kPart));
  CHECK(unpin(kPart) == CUDA_SUCCESS);
}

// cuMemHostUnregister: "The base address must be the same one specified to cuMemHostRegister()."
TEST_CASE_FIXTURE(HostMemoryFixture, "memory is unregistered by the start of its registration") {
  CHECK(pin(0, 2 * kPart) == CUDA_SUCCESS);
  CHECK(unpin(kPart) != CUDA_SUCCESS);
  CHECK(is_pinned(0));
  CHECK(unpin(0) == CUDA_SUCCESS);
}

// cuMemHostUnregister "makes it pageable again".
TEST_CASE_FIXTURE(HostMemoryFixture,
                  "unregistered memory can be registered again with another size") {
  CHECK(pin(0, kPart) == CUDA_SUCCESS);
  CHECK(unpin(0) == CUDA_SUCCESS);
  CHECK_FALSE(is_pinned(100));
  CHECK(pin(0, 2 * kPart) == CUDA_SUCCESS);
  CHECK(is_pinned(kPart));
  CHECK(unpin(0) == CUDA_SUCCESS);
}

// cuMemHostRegister: with CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM "the memory
// can also be accessed from the device using the host pointer".
TEST_CASE_FIXTURE(HostMemoryFixture, "a device writes registered memory by its host address") {
  int can = 0;
  driver.device_get_attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0);
  if (can != 1) {
    MESSAGE("skipped: needs device access to registered memory by its host address");
    return;
  }
  const CUstream stream = make_stream();
  CHECK(pin(0, kPart) == CUDA_SUCCESS);
  fill(address_of(memory + 100), 5, 50, stream);
  driver.stream_synchronize(stream);
  CHECK(memory[99] == 1);
  CHECK(memory[100] == 5);
  CHECK(memory[149] == 5);
  CHECK(memory[150] == 1);
  CHECK(unpin(0) == CUDA_SUCCESS);
  driver.stream_destroy(stream);
}

}  // namespace pinned_memory_contract_test
