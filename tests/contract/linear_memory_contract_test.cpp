// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Memory Management", cuMemAlloc, cuMemFree, cuMemGetInfo.
#include "contract/contract_driver.hpp"

namespace linear_memory_contract_test {

using namespace berth;
using namespace berth::test;

// cuMemAlloc "Allocates bytesize bytes of linear memory": no byte serves two allocations.
TEST_CASE_FIXTURE(ContractFixture, "allocations of any size keep their bytes apart") {
  const std::size_t sizes[] = {1, 2, 255, 256, 257, 4095, 65537, (1 << 20) - 1, (2 << 20) + 1};
  const CUstream stream = make_stream();
  std::vector<CUdeviceptr> pointers;
  for (const std::size_t bytes : sizes) {
    pointers.push_back(make_memory(bytes));
    fill(pointers.back(), static_cast<unsigned char>(pointers.size()), bytes, stream);
  }
  for (std::size_t i = 0; i < pointers.size(); ++i)
    CHECK(read(pointers[i], sizes[i], stream) ==
          bytes_of(sizes[i], static_cast<unsigned char>(i + 1)));
  for (const CUdeviceptr pointer : pointers) driver.mem_free(pointer);
  driver.stream_destroy(stream);
}

// cuMemFree names an allocation function as the only source of "dptr", not the thread that called
// it.
TEST_CASE_FIXTURE(ContractFixture, "one thread frees what another allocated") {
  CUdeviceptr pointer = 0;
  std::thread([&] {
    driver.ctx_push_current(context);
    pointer = make_memory(4096);
    driver.ctx_pop_current(nullptr);
  }).join();
  CHECK(driver.try_mem_free(pointer) == CUDA_SUCCESS);
}

// Each function's list of return values: CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(ContractFixture, "an allocation without a result pointer is refused") {
  CHECK(driver.try_mem_alloc(static_cast<CUdeviceptr*>(nullptr), std::size_t{4096}) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_mem_host_alloc(static_cast<void**>(nullptr), std::size_t{4096}, 0U) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_stream_create_with_priority(static_cast<CUstream*>(nullptr), 0U, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_event_create(static_cast<CUevent*>(nullptr), 0U) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemGetInfo: "the total amount of memory available to the current context"; cuDeviceTotalMem:
// "on the device".
TEST_CASE_FIXTURE(ContractFixture, "a context has no more memory than its device") {
  std::size_t free = 0;
  std::size_t total = 0;
  std::size_t of_device = 0;
  driver.mem_get_info(&free, &total);
  driver.device_total_mem(&of_device, 0);
  CHECK(total > 0);
  CHECK(total <= of_device);
}

// cuMemFree "Frees the memory space pointed to by dptr".
TEST_CASE_FIXTURE(ContractFixture, "freed memory can be allocated again") {
  std::size_t free = 0;
  std::size_t total = 0;
  driver.mem_get_info(&free, &total);
  const std::size_t most = free / 10 * 6;
  for (int i = 0; i < 3; ++i) {
    CUdeviceptr first = 0;
    CUdeviceptr second = 0;
    CHECK(driver.try_mem_alloc(&first, most) == CUDA_SUCCESS);
    CHECK(driver.try_mem_alloc(&second, most) == CUDA_ERROR_OUT_OF_MEMORY);
    driver.mem_free(first);
  }
}

// cudaFree, which runtimes forward: "If devPtr is 0, no operation is performed".
TEST_CASE_FIXTURE(ContractFixture, "freeing null does nothing") {
  CHECK(driver.try_mem_free(0) == CUDA_SUCCESS);
}

}  // namespace linear_memory_contract_test
