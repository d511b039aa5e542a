// SPDX-License-Identifier: Apache-2.0
// Reserved addresses, before anything is mapped to them.
// Source: CUDA Driver API, "Virtual Memory Management", cuMemAddressReserve, cuMemAddressFree.
#include "contract/virtual_memory_contract.hpp"

namespace virtual_address_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

struct AddressFixture : VirtualFixture {
  [[nodiscard]] CUresult reserve(CUdeviceptr& pointer, std::size_t bytes,
                                 CUdeviceptr hint = 0) const {
    return driver.try_mem_address_reserve(&pointer, bytes, std::size_t{0}, hint, 0ULL);
  }
};

}  // namespace

// cuMemAddressReserve: "The size and address parameters must be a multiple of the host page size".
TEST_CASE_FIXTURE(AddressFixture, "reservations have the size and alignment of whole pages") {
  if (!supported) return;
  CUdeviceptr pointer = 0;
  CHECK(reserve(pointer, granule + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(reserve(pointer, granule, at(4) + 1) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemAddressReserve: when addr "is non-zero then the driver treats it as a hint".
TEST_CASE_FIXTURE(AddressFixture, "a hint at reserved addresses is not followed") {
  if (!supported) return;
  CUdeviceptr pointer = 0;
  CHECK(reserve(pointer, granule, at(1)) == CUDA_SUCCESS);
  CHECK((pointer + granule <= base || pointer >= at(4)));
  CHECK(driver.try_mem_address_free(pointer, granule) == CUDA_SUCCESS);
}

// cuMemAddressReserve gives "a virtual address range": to one owner.
TEST_CASE_FIXTURE(AddressFixture, "reservations do not overlap") {
  if (!supported) return;
  std::vector<CUdeviceptr> pointers(8);
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    REQUIRE(reserve(pointers[i], 2 * granule) == CUDA_SUCCESS);
    for (std::size_t j = 0; j < i; ++j)
      CHECK((pointers[i] >= pointers[j] + 2 * granule || pointers[j] >= pointers[i] + 2 * granule));
  }
  for (const CUdeviceptr pointer : pointers)
    CHECK(driver.try_mem_address_free(pointer, 2 * granule) == CUDA_SUCCESS);
}

// Programming Guide, "Reserving a Virtual Address Range": the reservation "does not have any device
// or host physical memory associated to it".
TEST_CASE_FIXTURE(AddressFixture, "more addresses can be reserved than there is memory") {
  if (!supported) return;
  std::size_t total = 0;
  driver.device_total_mem(&total, 0);
  const std::size_t bytes = 4 * (total / granule) * granule;
  CUdeviceptr pointer = 0;
  CHECK(reserve(pointer, bytes) == CUDA_SUCCESS);
  CHECK(driver.try_mem_address_free(pointer, bytes) == CUDA_SUCCESS);
}

// cuMemAddressFree: "the ptr given must match what was returned from memAddressReserve".
TEST_CASE_FIXTURE(AddressFixture, "a reservation is freed by its start") {
  if (!supported) return;
  CHECK(driver.try_mem_address_free(at(1), 3 * granule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_address_free(at(1), 4 * granule) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemAddressFree frees what "cuMemAddressReserve" reserved: once.
TEST_CASE_FIXTURE(AddressFixture, "a reservation is freed once") {
  if (!supported) return;
  CUdeviceptr pointer = 0;
  REQUIRE(reserve(pointer, granule) == CUDA_SUCCESS);
  CHECK(driver.try_mem_address_free(pointer, granule) == CUDA_SUCCESS);
  CHECK(driver.try_mem_address_free(pointer, granule) == CUDA_ERROR_INVALID_VALUE);
}

// Nowhere in "Virtual Memory Management" is CUDA_ERROR_INVALID_CONTEXT a return value.
TEST_CASE_FIXTURE(AddressFixture, "memory is reserved, made and mapped without a current context") {
  if (!supported) return;
  std::vector<CUresult> results;
  std::thread([&] {
    Block block = 0;
    CUdeviceptr pointer = 0;
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    results = {driver.try_mem_create(&block, granule, &properties, 0ULL),
               reserve(pointer, granule),
               driver.try_mem_map(pointer, granule, std::size_t{0}, block, 0ULL),
               driver.try_mem_set_access(pointer, granule, &access, std::size_t{1}),
               driver.try_mem_unmap(pointer, granule),
               driver.try_mem_release(block),
               driver.try_mem_address_free(pointer, granule)};
  }).join();
  CHECK(results == std::vector<CUresult>(7, CUDA_SUCCESS));
}

}  // namespace virtual_address_contract_test
