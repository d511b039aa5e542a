// SPDX-License-Identifier: Apache-2.0
// Mappings of physical memory, and access to them.
// Source: CUDA Driver API, "Virtual Memory Management", cuMemMap, cuMemUnmap, cuMemSetAccess.
#include "contract/virtual_memory_contract.hpp"

namespace mapping_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

struct MappingFixture : VirtualFixture {
  /// Maps `block` at `index`, with access for device 0.
  void use(std::size_t index, Block block, std::size_t granules = 1) const {
    CHECK(map(index, block, granules) == CUDA_SUCCESS);
    CHECK(allow(index, granules) == CUDA_SUCCESS);
  }
  [[nodiscard]] unsigned char first_byte(std::size_t index) const {
    return read(at(index), 1, stream)[0];
  }
};

}  // namespace

// cuMemMap: "ptr, size, and offset must be a multiple of the value given via
// cuMemGetAllocationGranularity".
TEST_CASE_FIXTURE(MappingFixture, "memory is mapped in whole granules, to whole granules") {
  if (!supported) return;
  const Block block = create();
  const std::size_t half = granule / 2;
  CHECK(driver.try_mem_map(at(0) + half, granule, std::size_t{0}, block, 0ULL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_map(at(0), half, std::size_t{0}, block, 0ULL) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_release(block);
}

// cuMemMap: the range "must be an address reservation previously reserved with
// cuMemAddressReserve".
TEST_CASE_FIXTURE(MappingFixture, "memory is mapped to reserved addresses only") {
  if (!supported) return;
  const Block block = create();
  CUdeviceptr pointer = 0;
  driver.mem_address_reserve(&pointer, granule, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  driver.mem_address_free(pointer, granule);
  CHECK(driver.try_mem_map(pointer, granule, std::size_t{0}, block, 0ULL) ==
        CUDA_ERROR_INVALID_VALUE);
  driver.mem_release(block);
}

// The same, where the range begins inside a reservation and ends outside.
TEST_CASE_FIXTURE(MappingFixture, "a mapping does not reach beyond its reservation") {
  if (!supported) return;
  const Block block = create(2);
  CHECK(map(3, block, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(map(2, block, 2) == CUDA_SUCCESS);
  CHECK(unmap(2, 2) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuMemMap: offset and size must stay within "the size of the memory allocation".
TEST_CASE_FIXTURE(MappingFixture, "a mapping is no larger than its memory") {
  if (!supported) return;
  const Block block = create();
  CHECK(map(0, block, 2) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_release(block);
}

// cuMemUnmap: "The range must be the entire contiguous address range that was mapped to."
TEST_CASE_FIXTURE(MappingFixture, "a range with unmapped addresses cannot be unmapped") {
  if (!supported) return;
  const Block block = create();
  use(1, block);
  fill(at(1), 3, granule, stream);
  CHECK(unmap(0, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(unmap(1, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(first_byte(1) == 3);
  CHECK(unmap(1) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuMemUnmap: "the address range is converted to an address reservation and can be used for a
// future calls to cuMemMap".
TEST_CASE_FIXTURE(MappingFixture, "the same addresses can map different memory in turn") {
  if (!supported) return;
  const Block blocks[] = {create(), create()};
  for (std::size_t round = 0; round < 4; ++round) {
    use(0, blocks[round % 2]);
    if (round >= 2) CHECK(first_byte(0) == round - 1);
    fill(at(0), static_cast<unsigned char>(round + 1), granule, stream);
    driver.stream_synchronize(stream);
    CHECK(unmap(0) == CUDA_SUCCESS);
  }
  for (const Block block : blocks) driver.mem_release(block);
}

// cuMemUnmap: backing memory is freed only "if there are no existing mappings".
TEST_CASE_FIXTURE(MappingFixture, "physical memory lives as long as its last mapping") {
  if (!supported) return;
  const Block block = create();
  use(0, block);
  use(2, block);
  driver.mem_release(block);
  fill(at(0), 6, granule, stream);
  driver.stream_synchronize(stream);
  CHECK(unmap(0) == CUDA_SUCCESS);
  CHECK(first_byte(2) == 6);
  CHECK(unmap(2) == CUDA_SUCCESS);
}

// cuMemSetAccess: the range contains "all allocations created by cuMemMap", whole ones.
TEST_CASE_FIXTURE(MappingFixture, "access is not set on a part of a mapping") {
  if (!supported) return;
  const Block block = create(2);
  CHECK(map(0, block, 2) == CUDA_SUCCESS);
  CHECK(allow(0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allow(0, 2) == CUDA_SUCCESS);
  CHECK(unmap(0, 2) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuMemSetAccess: the descriptions say "how to change the mapping for each location"; what is
// mapped stays.
TEST_CASE_FIXTURE(MappingFixture, "bytes are preserved while no device has access") {
  if (!supported) return;
  const Block block = create();
  use(0, block);
  fill(at(0), 8, granule, stream);
  driver.stream_synchronize(stream);
  CUmemAccessDesc none{};
  none.location = properties.location;
  none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CHECK(driver.try_mem_set_access(at(0), granule, &none, std::size_t{1}) == CUDA_SUCCESS);
  CHECK(allow(0) == CUDA_SUCCESS);
  CHECK(first_byte(0) == 8);
  CHECK(unmap(0) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuMemFree: "dptr, which must have been returned by" one of the allocation functions.
TEST_CASE_FIXTURE(MappingFixture, "mapped memory is not freed as an allocation") {
  if (!supported) return;
  const Block block = create();
  use(0, block);
  CHECK(driver.try_mem_free(at(0)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(unmap(0) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// cuMemSetAccess takes "the locations in the array given by desc and count".
TEST_CASE_FIXTURE(MappingFixture, "access is set for several devices at once") {
  if (!supported || !has_two_devices()) return;
  int can = 0;
  driver.device_can_access_peer(&can, 1, 0);
  if (can != 1) {
    MESSAGE("skipped: device 1 does not access device 0");
    return;
  }
  CUmemAccessDesc access[2] = {};
  for (int device = 0; device < 2; ++device) {
    access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[device].location.id = device;
    access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  const Block block = create();
  CHECK(map(0, block) == CUDA_SUCCESS);
  CHECK(driver.try_mem_set_access(at(0), granule, access, std::size_t{2}) == CUDA_SUCCESS);
  {
    const SecondContext second(driver);
    const CUstream there = make_stream();
    fill(at(0), 4, granule, there);
    driver.stream_synchronize(there);
    driver.stream_destroy(there);
  }
  CHECK(first_byte(0) == 4);
  CHECK(unmap(0) == CUDA_SUCCESS);
  driver.mem_release(block);
}

// CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: the "device against which the memory was allocated",
// wherever it is mapped and whatever is current.
TEST_CASE_FIXTURE(MappingFixture, "pointer attributes give the device of mapped memory") {
  if (!supported || !has_two_devices()) return;
  properties.location.id = 1;
  const Block block = create();
  CHECK(map(0, block) == CUDA_SUCCESS);
  CHECK(allow(0, 1, 1) == CUDA_SUCCESS);
  int device = -1;
  driver.pointer_get_attribute(static_cast<void*>(&device), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                               at(0) + 1);
  CHECK(device == 1);
  CHECK(unmap(0) == CUDA_SUCCESS);
  driver.mem_release(block);
}

}  // namespace mapping_contract_test
