// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Virtual Memory Management"; CUDA C++ Programming Guide, "Virtual Memory
// Management".
#include "contract/virtual_memory_contract.hpp"

#include <bit>

namespace virtual_memory_contract_test {

using namespace berth;
using namespace berth::test;

// cuMemGetAllocationGranularity: usable as "a multiple for alignment, size, or address mapping".
TEST_CASE_FIXTURE(VirtualFixture, "the recommended granularity is a multiple of the smallest") {
  if (!supported) return;
  std::size_t recommended = 0;
  CHECK(driver.try_mem_get_allocation_granularity(
            &recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS);
  CHECK(std::has_single_bit(granule));
  CHECK(recommended % granule == 0);
  CHECK(base % granule == 0);
}

// cuMemAddressReserve: "the alignment must be a power of two or zero for default alignment"; flags
// "must be zero".
TEST_CASE_FIXTURE(VirtualFixture, "a reservation is aligned as requested, and checked") {
  if (!supported) return;
  CUdeviceptr pointer = 0;
  const std::size_t alignment = 8 * granule;
  CHECK(driver.try_mem_address_reserve(&pointer, granule, alignment, CUdeviceptr{0}, 0ULL) ==
        CUDA_SUCCESS);
  CHECK(pointer % alignment == 0);
  CHECK(driver.try_mem_address_free(pointer, granule) == CUDA_SUCCESS);
  CHECK(driver.try_mem_address_reserve(&pointer, granule, std::size_t{3}, CUdeviceptr{0}, 0ULL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_address_reserve(&pointer, granule, std::size_t{0}, CUdeviceptr{0}, 1ULL) ==
        CUDA_ERROR_INVALID_VALUE);
}

// cuMemAddressFree: "The size must match what was given to memAddressReserve."
TEST_CASE_FIXTURE(VirtualFixture, "a reservation is freed whole") {
  if (!supported) return;
  CHECK(driver.try_mem_address_free(base, granule) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemCreate: "The size of this allocation must be a multiple of the value given via
// cuMemGetAllocationGranularity"; flags "must be zero now"; CUDA_ERROR_OUT_OF_MEMORY.
TEST_CASE_FIXTURE(VirtualFixture,
                  "physical memory is created in granules until the device is full") {
  if (!supported) return;
  Block block = 0;
  std::size_t total = 0;
  driver.device_total_mem(&total, 0);
  const std::size_t too_much = (total / granule + 1) * granule;
  CHECK(driver.try_mem_create(&block, granule / 2, &properties, 0ULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_create(&block, granule, &properties, 1ULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_create(&block, too_much, &properties, 0ULL) == CUDA_ERROR_OUT_OF_MEMORY);
}

// Programming Guide: allocate, reserve, map, set access; then use as any device memory.
TEST_CASE_FIXTURE(VirtualFixture, "mapped memory with access holds bytes") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(1, block) == CUDA_SUCCESS);
  CHECK(allow(1) == CUDA_SUCCESS);
  fill(at(1), 42, granule, stream);
  CHECK(read(at(1) + granule - 16, 16, stream) == bytes_of(16, 42));
  CHECK(unmap(1) == CUDA_SUCCESS);
  CHECK(driver.try_mem_release(block) == CUDA_SUCCESS);
}

// cuMemRelease: "The generic memory handle can be freed when there are still outstanding mappings
// made with this handle."
TEST_CASE_FIXTURE(VirtualFixture, "memory outlives its handle while it is mapped") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(0, block) == CUDA_SUCCESS);
  CHECK(driver.try_mem_release(block) == CUDA_SUCCESS);
  CHECK(allow(0) == CUDA_SUCCESS);
  fill(at(0), 9, 64, stream);
  CHECK(read(at(0), 64, stream) == bytes_of(64, 9));
  CHECK(unmap(0) == CUDA_SUCCESS);
}

// cuMemUnmap: backing memory is freed only "if there are no existing mappings and there are no
// unreleased memory handles".
TEST_CASE_FIXTURE(VirtualFixture, "an unmapped handle keeps its bytes for the next mapping") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(0, block) == CUDA_SUCCESS);
  CHECK(allow(0) == CUDA_SUCCESS);
  fill(at(0), 77, 64, stream);
  driver.stream_synchronize(stream);
  CHECK(unmap(0) == CUDA_SUCCESS);
  CHECK(map(3, block) == CUDA_SUCCESS);
  CHECK(allow(3) == CUDA_SUCCESS);
  CHECK(read(at(3), 64, stream) == bytes_of(64, 77));
  CHECK(unmap(3) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// Programming Guide, "Virtual Aliasing Support": two mappings of one allocation; writes through one
// are seen through the other by later operations.
TEST_CASE_FIXTURE(VirtualFixture, "two mappings of one handle are the same memory") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(0, block) == CUDA_SUCCESS);
  CHECK(map(2, block) == CUDA_SUCCESS);
  CHECK(allow(0) == CUDA_SUCCESS);
  CHECK(allow(2) == CUDA_SUCCESS);
  fill(at(0), 1, 64, stream);
  CHECK(read(at(2), 64, stream) == bytes_of(64, 1));
  fill(at(2), 2, 64, stream);
  CHECK(read(at(0), 64, stream) == bytes_of(64, 2));
  CHECK(unmap(0) == CUDA_SUCCESS);
  CHECK(unmap(2) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// Programming Guide: separate allocations mapped side by side form one contiguous range.
TEST_CASE_FIXTURE(VirtualFixture, "work runs across neighboring mappings") {
  if (!supported) return;
  const Block first = create();
  const Block second = create();
  CHECK(map(0, first) == CUDA_SUCCESS);
  CHECK(map(1, second) == CUDA_SUCCESS);
  CHECK(allow(0, 2) == CUDA_SUCCESS);
  fill(at(0), 5, 2 * granule, stream);
  CHECK(read(at(1) - 32, 64, stream) == bytes_of(64, 5));
  CHECK(unmap(0) == CUDA_SUCCESS);
  CHECK(unmap(1) == CUDA_SUCCESS);
  driver.mem_release(first);
  driver.mem_release(second);
}

// cuMemMap: "can only create mappings on VA range reservations that are not currently mapped";
// offset "currently must be zero"; flags "must be zero now".
TEST_CASE_FIXTURE(VirtualFixture, "a mapping needs free reserved addresses and offset zero") {
  if (!supported) return;
  const Block block = create(2);
  CHECK(driver.try_mem_map(at(0), granule, granule, block, 0ULL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_map(at(0), 2 * granule, std::size_t{0}, block, 1ULL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(map(1, block, 2) == CUDA_SUCCESS);
  CHECK(map(1, block, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(2, block, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(unmap(1, 2) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuMemUnmap: "cannot unmap a sub-range of an address range mapped by cuMemCreate / cuMemMap".
TEST_CASE_FIXTURE(VirtualFixture, "a part of a mapping cannot be unmapped") {
  if (!supported) return;
  const Block block = create(2);
  CHECK(map(0, block, 2) == CUDA_SUCCESS);
  CHECK(unmap(0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(unmap(0, 2) == CUDA_SUCCESS);
  CHECK(unmap(0, 2) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_release(block);
}

// cuMemSetAccess: "The range must be a fully mapped address range"; CUDA_ERROR_INVALID_DEVICE.
TEST_CASE_FIXTURE(VirtualFixture, "access is set where memory is mapped, for devices that exist") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(0, block) == CUDA_SUCCESS);
  CHECK(allow(0, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(0, 1, 1000) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(unmap(0) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuPointerGetAttribute, RANGE_START_ADDR: "the address of the mappable address range ptr
// references (e.g. from cuMemAddressReserve)".
TEST_CASE_FIXTURE(VirtualFixture,
                  "a mapped pointer is device memory, and its range is the reservation") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(1, block) == CUDA_SUCCESS);
  CHECK(allow(1) == CUDA_SUCCESS);
  unsigned type = 0;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  driver.pointer_get_attribute(static_cast<void*>(&type), CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                               at(1) + 5);
  driver.pointer_get_attribute(static_cast<void*>(&start), CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                               at(1) + 5);
  driver.pointer_get_attribute(static_cast<void*>(&bytes), CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                               at(1) + 5);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(start == base);
  CHECK(bytes == 4 * granule);
  CHECK(unmap(1) == CUDA_SUCCESS);
  driver.mem_release(block);
}

}  // namespace virtual_memory_contract_test
