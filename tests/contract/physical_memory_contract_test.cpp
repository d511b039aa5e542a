// SPDX-License-Identifier: Apache-2.0
// Physical memory and its lifetime.
// Source: CUDA Driver API, "Virtual Memory Management", cuMemCreate, cuMemRelease.
#include "contract/virtual_memory_contract.hpp"

namespace physical_memory_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Knows how much of a device is more than half of what is free.
struct PhysicalFixture : VirtualFixture {
  PhysicalFixture() {
    if (!supported) return;
    std::size_t free = 0;
    std::size_t total = 0;
    driver.mem_get_info(&free, &total);
    most = free / 10 * 6 / granule * granule;
  }
  [[nodiscard]] CUresult try_create(Block& block, std::size_t bytes) const {
    return driver.try_mem_create(&block, bytes, &properties, 0ULL);
  }

  std::size_t most = 0;
};

}  // namespace

// cuMemCreate, "on the target device specified through the prop structure";
// CUDA_ERROR_INVALID_DEVICE.
TEST_CASE_FIXTURE(PhysicalFixture, "physical memory on a device that does not exist is refused") {
  if (!supported) return;
  Block block = 0;
  properties.location.id = 1000;
  CHECK(try_create(block, granule) == CUDA_ERROR_INVALID_DEVICE);
}

// CUmemAllocationType: CU_MEM_ALLOCATION_TYPE_INVALID is none; CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(PhysicalFixture, "physical memory of an unknown type is refused") {
  if (!supported) return;
  Block block = 0;
  properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  CHECK(try_create(block, granule) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemCreate: "Specifying CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT as the CUmemLocation::type will
// result in CUDA_ERROR_INVALID_VALUE."
TEST_CASE_FIXTURE(PhysicalFixture, "physical memory on the calling thread's NUMA node is refused") {
  if (!supported) return;
  Block block = 0;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  CHECK(try_create(block, granule) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemRelease "Frees the memory that was allocated on a device through cuMemCreate."
TEST_CASE_FIXTURE(PhysicalFixture, "released memory can be allocated again") {
  if (!supported) return;
  for (int i = 0; i < 3; ++i) {
    Block first = 0;
    Block second = 0;
    CHECK(try_create(first, most) == CUDA_SUCCESS);
    CHECK(try_create(second, most) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(driver.try_mem_release(first) == CUDA_SUCCESS);
  }
}

// cuMemRelease: "The memory allocation will be freed when all outstanding mappings to the memory
// are unmapped and when all outstanding references to the handle ... are also released."
TEST_CASE_FIXTURE(PhysicalFixture, "mapped memory stays in use after its handle is released") {
  if (!supported) return;
  Block first = 0;
  Block second = 0;
  CUdeviceptr pointer = 0;
  driver.mem_address_reserve(&pointer, most, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  CHECK(try_create(first, most) == CUDA_SUCCESS);
  CHECK(driver.try_mem_map(pointer, most, std::size_t{0}, first, 0ULL) == CUDA_SUCCESS);
  CHECK(driver.try_mem_release(first) == CUDA_SUCCESS);
  CHECK(try_create(second, most) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver.try_mem_unmap(pointer, most) == CUDA_SUCCESS);
  CHECK(try_create(second, most) == CUDA_SUCCESS);
  CHECK(driver.try_mem_release(second) == CUDA_SUCCESS);
  driver.mem_address_free(pointer, most);
}

// cuMemUnmap: backing memory is freed "if there are no existing mappings and there are no
// unreleased memory handles": not before.
TEST_CASE_FIXTURE(PhysicalFixture, "unmapped memory is in use until its handle is released") {
  if (!supported) return;
  Block first = 0;
  Block second = 0;
  CUdeviceptr pointer = 0;
  driver.mem_address_reserve(&pointer, most, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  CHECK(try_create(first, most) == CUDA_SUCCESS);
  CHECK(driver.try_mem_map(pointer, most, std::size_t{0}, first, 0ULL) == CUDA_SUCCESS);
  CHECK(driver.try_mem_unmap(pointer, most) == CUDA_SUCCESS);
  CHECK(try_create(second, most) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver.try_mem_release(first) == CUDA_SUCCESS);
  driver.mem_address_free(pointer, most);
}

// cuMemAlloc and cuMemCreate both take from "the device".
TEST_CASE_FIXTURE(PhysicalFixture, "allocations and physical memory share the device's memory") {
  if (!supported) return;
  Block block = 0;
  CUdeviceptr pointer = 0;
  CHECK(try_create(block, most) == CUDA_SUCCESS);
  CHECK(driver.try_mem_alloc(&pointer, most) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(driver.try_mem_release(block) == CUDA_SUCCESS);
  CHECK(driver.try_mem_alloc(&pointer, most) == CUDA_SUCCESS);
  CHECK(try_create(block, most) == CUDA_ERROR_OUT_OF_MEMORY);
  driver.mem_free(pointer);
}

}  // namespace physical_memory_contract_test
