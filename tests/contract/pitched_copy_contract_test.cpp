// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemAllocPitch, cuMemcpy2D.
#include "contract/contract_driver.hpp"

namespace pitched_copy_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kWidth = 1000;
constexpr std::size_t kRows = 7;

struct PitchedCopyFixture : ContractFixture {
  PitchedCopyFixture() : stream(make_stream()), host(kWidth * kRows) {
    REQUIRE(allocate(&device, &pitch, kWidth, kRows, 4) == CUDA_SUCCESS);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 7);
  }
  ~PitchedCopyFixture() {
    driver.try_ctx_synchronize();
    driver.try_mem_free(device);
    driver.try_stream_destroy(stream);
  }
  [[nodiscard]] CUDA_MEMCPY2D to_device() const {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host.data();
    copy.srcPitch = kWidth;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device;
    copy.dstPitch = pitch;
    copy.WidthInBytes = kWidth;
    copy.Height = kRows;
    return copy;
  }
  [[nodiscard]] CUDA_MEMCPY2D to_host(unsigned char* target) const {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = device;
    copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.dstDevice = address_of(target);
    copy.dstPitch = kWidth;
    copy.WidthInBytes = kWidth;
    copy.Height = kRows;
    return copy;
  }

  decltype(&::cuMemAllocPitch) allocate = CONTRACT_FUNCTION(cuMemAllocPitch, 3020);
  decltype(&::cuMemcpy2D) copy_now = CONTRACT_FUNCTION(cuMemcpy2D, 3020);
  decltype(&::cuMemcpy2DUnaligned) copy_unaligned = CONTRACT_FUNCTION(cuMemcpy2DUnaligned, 3020);
  decltype(&::cuMemcpy2DAsync) copy_async = CONTRACT_FUNCTION(cuMemcpy2DAsync, 3020);

  CUstream stream;
  std::vector<unsigned char> host;
  CUdeviceptr device = 0;
  std::size_t pitch = 0;
};

}  // namespace

// cuMemAllocPitch: the pitch is the width in bytes of the allocation; "The pitch returned by
// cuMemAllocPitch() is guaranteed to work with cuMemcpy2D() under all circumstances."
TEST_CASE_FIXTURE(PitchedCopyFixture, "copies to pitched memory and back preserve the rows") {
  CHECK(pitch >= kWidth);
  const CUDA_MEMCPY2D in = to_device();
  CHECK(copy_now(&in) == CUDA_SUCCESS);
  std::vector<unsigned char> back(host.size());
  const CUDA_MEMCPY2D home = to_host(back.data());
  CHECK(copy_now(&home) == CUDA_SUCCESS);
  CHECK(back == host);
  back.assign(back.size(), 0);
  CHECK(copy_unaligned(&home) == CUDA_SUCCESS);
  CHECK(back == host);
  back.assign(back.size(), 0);
  CHECK(copy_async(&home, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(back == host);
}

// cuMemcpy2D: "Start = srcDevice+srcY*srcPitch+srcXInBytes".
TEST_CASE_FIXTURE(PitchedCopyFixture, "X and Y choose a rectangle inside the rows") {
  const CUDA_MEMCPY2D in = to_device();
  CHECK(copy_now(&in) == CUDA_SUCCESS);
  std::vector<unsigned char> back(std::size_t{3} * 10);
  CUDA_MEMCPY2D part = to_host(back.data());
  part.srcXInBytes = 90;
  part.srcY = 2;
  part.dstPitch = 10;
  part.WidthInBytes = 10;
  part.Height = 3;
  CHECK(copy_now(&part) == CUDA_SUCCESS);
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t x = 0; x < 10; ++x)
      REQUIRE(back[row * 10 + x] == host[(row + 2) * kWidth + 90 + x]);
}

// cuMemcpy2D: "srcPitch must be greater than or equal to WidthInBytes + srcXInBytes, and dstPitch
// ..."; "returns an error if any pitch is greater than the maximum allowed".
TEST_CASE_FIXTURE(PitchedCopyFixture, "a pitch that is too small, or too large, is refused") {
  CUDA_MEMCPY2D narrow = to_device();
  narrow.srcPitch = kWidth - 1;
  CHECK(copy_now(&narrow) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY2D shifted = to_device();
  shifted.srcXInBytes = 1;
  CHECK(copy_now(&shifted) == CUDA_ERROR_INVALID_VALUE);
  int most = 0;
  driver.device_get_attribute(&most, CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0);
  CUDA_MEMCPY2D wide = to_device();
  wide.Height = 1;
  wide.dstPitch = static_cast<std::size_t>(most) + 1;
  CHECK(copy_now(&wide) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemAllocPitch: "ElementSizeBytes may be 4, 8 or 16".
TEST_CASE_FIXTURE(PitchedCopyFixture, "pitched memory accepts elements of 4, 8 or 16 bytes") {
  for (const unsigned bytes : {4U, 8U, 16U}) {
    CUdeviceptr pointer = 0;
    CHECK(allocate(&pointer, &pitch, kWidth, kRows, bytes) == CUDA_SUCCESS);
    driver.mem_free(pointer);
  }
  CUdeviceptr pointer = 0;
  CHECK(allocate(&pointer, &pitch, kWidth, kRows, 3) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace pitched_copy_contract_test
