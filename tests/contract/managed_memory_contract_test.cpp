// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemAllocManaged, cuPointerGetAttribute.
#include <cstring>

#include "contract/contract_driver.hpp"
#include "contract/lookup_contract.hpp"

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
TEST_CASE_FIXTURE(ManagedFixture,
                  "pointer attributes identify managed memory, at interior addresses too") {
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

// cuMemPrefetchAsync: "Prefetches memory to the specified destination location", in stream order;
// "Memory accesses to this range are always coherent and are allowed even when the data is actively
// being migrated."
TEST_CASE_FIXTURE(ManagedFixture, "a prefetch moves managed memory, and changes nothing in it") {
  auto* const prefetch = CONTRACT_FUNCTION(cuMemPrefetchAsync, 12020);
  if (managed == 0 || prefetch == nullptr) return;
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  fill(managed, 6, kBytes, stream);
  CHECK(prefetch(managed, kBytes, device, 0, stream) == CUDA_SUCCESS);
  fill(managed + 1, 7, 1, stream);
  CHECK(prefetch(managed, kBytes / 2, host, 0, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(on_host()[0] == 6);
  CHECK(on_host()[1] == 7);
}

TEST_CASE_FIXTURE(ManagedFixture, "a prefetch waits for its place in the stream") {
  auto* const prefetch = CONTRACT_FUNCTION(cuMemPrefetchAsync, 12020);
  if (managed == 0 || prefetch == nullptr) return;
  Gate gate(driver, stream);
  CHECK(prefetch(managed, kBytes, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, stream) == CUDA_SUCCESS);
  CHECK(driver.try_stream_query(stream) == CUDA_ERROR_NOT_READY);
  gate.open();
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
}

// The form before CUDA 12.2: "Specify CU_DEVICE_CPU for dstDevice to prefetch to host memory".
TEST_CASE_FIXTURE(ManagedFixture, "older programs prefetch and advise by device") {
  using Prefetch = CUresult(CUdeviceptr, std::size_t, CUdevice, CUstream);
  using Advise = CUresult(CUdeviceptr, std::size_t, CUmem_advise, CUdevice);
  Lookup* lookup = find_lookup(driver);
  if (lookup == nullptr) return;
  auto* const prefetch = find<Prefetch>(lookup, "cuMemPrefetchAsync", 8000, 0);
  auto* const advise = find<Advise>(lookup, "cuMemAdvise", 8000, 0);
  if (managed == 0 || prefetch == nullptr || advise == nullptr) return;
  CHECK(prefetch(managed, kBytes, 0, stream) == CUDA_SUCCESS);
  CHECK(prefetch(managed, kBytes, CU_DEVICE_CPU, stream) == CUDA_SUCCESS);
  CHECK(prefetch(managed, kBytes, 1000, stream) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(advise(managed, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, 0) == CUDA_SUCCESS);
  CHECK(advise(managed, kBytes, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
}

// Each function's list of return values: CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE.
TEST_CASE_FIXTURE(ManagedFixture,
                  "prefetches and advice are refused for memory that is not managed") {
  auto* const prefetch = CONTRACT_FUNCTION(cuMemPrefetchAsync, 12020);
  auto* const advise = CONTRACT_FUNCTION(cuMemAdvise, 12020);
  if (managed == 0 || prefetch == nullptr) return;
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUdeviceptr memory = make_memory(kBytes);
  CHECK(prefetch(memory, kBytes, device, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(prefetch(managed, 0, device, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(prefetch(managed, kBytes, device, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(prefetch(managed, kBytes, {CU_MEM_LOCATION_TYPE_DEVICE, 1000}, 0, stream) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(advise(memory, kBytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device) == CUDA_ERROR_INVALID_VALUE);
  CHECK(advise(managed, kBytes, static_cast<CUmem_advise>(0), device) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_free(memory);
}

// cuMemRangeGetAttribute: "If ... all pages in the memory range have" what was said, it is told,
// otherwise CU_DEVICE_INVALID, or 0.
TEST_CASE_FIXTURE(ManagedFixture,
                  "a range reports advice only if it was given for the whole range") {
  auto* const prefetch = CONTRACT_FUNCTION(cuMemPrefetchAsync, 12020);
  auto* const advise = CONTRACT_FUNCTION(cuMemAdvise, 12020);
  auto* const get = CONTRACT_FUNCTION(cuMemRangeGetAttribute, 8000);
  if (managed == 0 || prefetch == nullptr) return;
  const auto number = [&](CUmem_range_attribute attribute, std::size_t bytes) {
    int value = -99;
    CHECK(get(&value, sizeof(value), attribute, managed, bytes) == CUDA_SUCCESS);
    return value;
  };
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, kBytes) == 0);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, kBytes) == CU_DEVICE_INVALID);
  CHECK(advise(managed, kBytes / 2, CU_MEM_ADVISE_SET_READ_MOSTLY, device) == CUDA_SUCCESS);
  CHECK(advise(managed, kBytes / 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device) == CUDA_SUCCESS);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, kBytes / 2) == 1);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, kBytes) == 0);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, kBytes / 2) == 0);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, kBytes) == CU_DEVICE_INVALID);
  CHECK(prefetch(managed, kBytes, device, 0, stream) == CUDA_SUCCESS);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, kBytes) == 0);
  CHECK(advise(managed, kBytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device) == CUDA_SUCCESS);
  CHECK(number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, kBytes / 2) == CU_DEVICE_INVALID);
  CHECK(advise(managed, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device) == CUDA_SUCCESS);
  int accessing[3] = {-99, -99, -99};
  CHECK(get(accessing, sizeof(accessing), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, kBytes) ==
        CUDA_SUCCESS);
  CHECK(accessing[0] == 0);
  CHECK(accessing[1] == CU_DEVICE_INVALID);
  CHECK(get(accessing, 3, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, kBytes) ==
        CUDA_ERROR_INVALID_VALUE);
  driver.stream_synchronize(stream);
}

}  // namespace managed_memory_contract_test
