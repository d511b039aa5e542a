// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Memory Management"; "API synchronization behavior", "Memset".
#include <cstring>

#include "contract/contract_driver.hpp"

namespace memset_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4096;

struct MemsetFixture : ContractFixture {
  MemsetFixture() : device(make_memory(kBytes)), stream(make_stream()) {
    fill(device, 0, kBytes, stream);
    driver.stream_synchronize(stream);
  }
  ~MemsetFixture() {
    driver.try_ctx_synchronize();
    driver.try_mem_free(device);
    driver.try_stream_destroy(stream);
  }
  /// The first `count` values of device memory.
  template <class Value>
  [[nodiscard]] std::vector<Value> values(std::size_t count) const {
    driver.ctx_synchronize();
    const std::vector<unsigned char> bytes = read(device, count * sizeof(Value), stream);
    std::vector<Value> out(count);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }

  decltype(&::cuMemsetD8) fill8 = CONTRACT_FUNCTION(cuMemsetD8, 3020);
  decltype(&::cuMemsetD16) fill16 = CONTRACT_FUNCTION(cuMemsetD16, 3020);
  decltype(&::cuMemsetD32) fill32 = CONTRACT_FUNCTION(cuMemsetD32, 3020);
  decltype(&::cuMemsetD16Async) fill16_async = CONTRACT_FUNCTION(cuMemsetD16Async, 3020);
  decltype(&::cuMemsetD32Async) fill32_async = CONTRACT_FUNCTION(cuMemsetD32Async, 3020);
  decltype(&::cuMemsetD2D8) rows8 = CONTRACT_FUNCTION(cuMemsetD2D8, 3020);
  decltype(&::cuMemsetD2D32Async) rows32_async = CONTRACT_FUNCTION(cuMemsetD2D32Async, 3020);

  CUdeviceptr device;
  CUstream stream;
};

}  // namespace

// cuMemsetD8, cuMemsetD16, cuMemsetD32: "Sets the memory range of N ... values to the specified
// value".
TEST_CASE_FIXTURE(MemsetFixture, "the size of a fill counts values and not bytes") {
  CHECK(fill8(device, 0x21, 8) == CUDA_SUCCESS);
  CHECK(values<unsigned char>(9) ==
        std::vector<unsigned char>{0x21, 0x21, 0x21, 0x21, 0x21, 0x21, 0x21, 0x21, 0});
  CHECK(fill16(device, 0x1234, 4) == CUDA_SUCCESS);
  CHECK(values<unsigned short>(5) ==
        std::vector<unsigned short>{0x1234, 0x1234, 0x1234, 0x1234, 0});
  CHECK(fill32(device, 0x12345678, 2) == CUDA_SUCCESS);
  CHECK(values<unsigned>(3) == std::vector<unsigned>{0x12345678, 0x12345678, 0});
  CHECK(fill16_async(device, 0xabcd, 1, stream) == CUDA_SUCCESS);
  CHECK(fill32_async(device + 4, 0xa1b2c3d4, 1, stream) == CUDA_SUCCESS);
  CHECK(values<unsigned>(2) == std::vector<unsigned>{0x1234abcd, 0xa1b2c3d4});
}

// cuMemsetD2D8: "dstPitch specifies the number of bytes between each row".
TEST_CASE_FIXTURE(MemsetFixture, "a fill of rows leaves the rest of the pitch") {
  CHECK(rows8(device, 512, 7, 100, 3) == CUDA_SUCCESS);
  CHECK(rows32_async(device + 256, 512, 0x05050505, 2, 3, stream) == CUDA_SUCCESS);
  const std::vector<unsigned char> content = values<unsigned char>(4 * 512);
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::size_t x = i % 512;
    const bool in_row = i < std::size_t{3} * 512;
    const int expected = in_row && x < 100 ? 7 : in_row && x >= 256 && x < 264 ? 5 : 0;
    REQUIRE(content[i] == expected);
  }
}

// cuMemsetD16: "The dstDevice pointer must be two byte aligned", cuMemsetD32: four.
TEST_CASE_FIXTURE(MemsetFixture, "a fill of an address that its value is not aligned to fails") {
  CHECK(fill16(device + 1, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill32(device + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill16_async(device + 1, 0, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(fill32_async(device + 2, 0, 1, stream) == CUDA_ERROR_INVALID_VALUE);
}

// "Memset": "The synchronous memset functions are asynchronous with respect to the host except when
// the target is pinned host memory or a Unified Memory region".
TEST_CASE_FIXTURE(MemsetFixture, "a synchronous fill of pinned memory is done at its return") {
  unsigned char* pinned = make_pinned(kBytes, 1);
  CHECK(fill8(address_of(pinned), 2, kBytes) == CUDA_SUCCESS);
  CHECK(pinned[kBytes - 1] == 2);
  driver.mem_free_host(static_cast<void*>(pinned));
}

// "Stream synchronization behavior": what uses the null stream waits for blocking streams.
TEST_CASE_FIXTURE(MemsetFixture, "a synchronous fill comes after the work of blocking streams") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  fill(device, 1, kBytes, blocking);
  CHECK(fill8(device, 2, kBytes) == CUDA_SUCCESS);
  fill(device, 3, 1, blocking);
  CHECK(values<unsigned char>(2) == std::vector<unsigned char>{3, 2});
  driver.stream_destroy(blocking);
}

}  // namespace memset_contract_test
