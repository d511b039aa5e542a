// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemAllocManaged, cuPointerGetAttribute.
#include <cstring>

#include "contract/contract_driver.hpp"

namespace managed_memory_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1 << 16;

struct ManagedFixture : ContractFixture {
  ManagedFixture() : stream(make_stream()) {
    int supported = 0;
    driver.device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
    if (supported == 0) {
      MESSAGE("skipped: needs managed memory that host and device use at the same time");
      return;
    }
    CHECK(allocate(&managed, kBytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  }
  ~ManagedFixture() {
    driver.try_ctx_synchronize();
    if (managed != 0) driver.try_mem_free(managed);
    driver.try_stream_destroy(stream);
  }
  template <class T>
  T told(CUpointer_attribute attribute, CUdeviceptr pointer) {
    T value{};
    CHECK(driver.try_pointer_get_attribute(static_cast<void*>(&value), attribute, pointer) ==
          CUDA_SUCCESS);
    return value;
  }
  [[nodiscard]] unsigned char* on_host() const { return reinterpret_cast<unsigned char*>(managed); }

  decltype(&::cuMemAllocManaged) allocate = CONTRACT_FUNCTION(cuMemAllocManaged, 6000);
  CUdeviceptr managed = 0;
  CUstream stream;
};

}  // namespace

// "The pointer is valid on the CPU and on all GPUs in the system that support managed memory."
TEST_CASE_FIXTURE(ManagedFixture, "host and device see the same managed memory") {
  if (managed == 0) return;
  fill(managed, 7, kBytes, stream);
  driver.stream_synchronize(stream);
  CHECK(on_host()[0] == 7);
  CHECK(on_host()[kBytes - 1] == 7);
  on_host()[1] = 9;
  CHECK(read(managed, 3, stream) == std::vector<unsigned char>{7, 9, 7});
}

TEST_CASE_FIXTURE(ManagedFixture, "managed memory is copied like any other") {
  if (managed == 0) return;
  const CUdeviceptr memory = make_memory(kBytes);
  unsigned char* const pinned = make_pinned(kBytes, 3);
  driver.memcpy_async(managed, address_of(pinned), kBytes, stream);
  driver.memcpy_async(memory, managed, kBytes, stream);
  CHECK(read(memory, kBytes, stream) == bytes_of(kBytes, 3));
  fill(memory, 4, kBytes, stream);
  driver.memcpy_async(managed, memory, kBytes, stream);
  driver.stream_synchronize(stream);
  CHECK(on_host()[kBytes / 2] == 4);
  driver.mem_free(memory);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// RANGE_START_ADDR, RANGE_SIZE: of the allocation. IS_MANAGED: "a boolean that indicates whether
// the pointer points to managed memory or not".
TEST_CASE_FIXTURE(ManagedFixture, "managed memory is known as such, inside too") {
  if (managed == 0) return;
  for (const CUdeviceptr pointer : {managed, managed + kBytes - 1}) {
    CHECK(told<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer) == 1);
    CHECK(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) == managed);
    CHECK(told<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) == kBytes);
  }
}

// "If bytesize is 0, cuMemAllocManaged returns CUDA_ERROR_INVALID_VALUE"; "flags must be one of
// CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST".
TEST_CASE_FIXTURE(ManagedFixture, "malformed managed allocations are refused") {
  if (managed == 0) return;
  CUdeviceptr none = 0;
  CHECK(allocate(&none, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allocate(&none, 1, 0) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace managed_memory_contract_test
