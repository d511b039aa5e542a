// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemcpyBatchAsync.
#include <array>

#include "contract/contract_driver.hpp"
#include "driver/newer_declarations.hpp"

namespace batch_copy_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1 << 16;
constexpr std::size_t kCount = 3;

struct BatchCopyFixture : ContractFixture {
  BatchCopyFixture()
      : source(make_memory(kCount * kBytes)),
        target(make_memory(kCount * kBytes)),
        stream(make_stream()) {
    if (batch == nullptr) MESSAGE("skipped: needs the batch copies of CUDA 13");
    for (std::size_t i = 0; i < kCount; ++i) {
      destinations[i] = target + i * kBytes;
      sources[i] = source + i * kBytes;
    }
    sizes.fill(kBytes);
    fill(source, 4, kCount * kBytes, stream);
    fill(target, 0, kCount * kBytes, stream);
    driver.stream_synchronize(stream);
  }
  ~BatchCopyFixture() {
    driver.try_ctx_synchronize();
    driver.try_mem_free(source);
    driver.try_mem_free(target);
    driver.try_stream_destroy(stream);
  }
  static CUmemcpyAttributes attributes(
      CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) {
    CUmemcpyAttributes made{};
    made.srcAccessOrder = order;
    return made;
  }
  CUresult copy(std::vector<CUmemcpyAttributes> with, std::vector<std::size_t> firsts,
                CUstream on) {
    return batch(destinations.data(), sources.data(), sizes.data(), kCount, with.data(),
                 firsts.data(), with.size(), on);
  }

  decltype(&::cuMemcpyBatchAsync) batch = CONTRACT_FUNCTION(cuMemcpyBatchAsync, 13000);
  CUdeviceptr source;
  CUdeviceptr target;
  CUstream stream;
  std::array<CUdeviceptr, kCount> destinations{};
  std::array<CUdeviceptr, kCount> sources{};
  std::array<std::size_t, kCount> sizes{};
};

}  // namespace

// "The batch as a whole executes in stream order".
TEST_CASE_FIXTURE(BatchCopyFixture, "a batch is in the order of its stream") {
  if (batch == nullptr) return;
  fill(source, 5, kCount * kBytes, stream);
  CHECK(copy({attributes()}, {0}, stream) == CUDA_SUCCESS);
  fill(source, 6, kCount * kBytes, stream);
  CHECK(read(target, kCount * kBytes, stream) == bytes_of(kCount * kBytes, 5));
}

// "attrsIdxs ... the index of the first copy that the corresponding entry in the attrs array
// applies to".
TEST_CASE_FIXTURE(BatchCopyFixture, "copies of one batch may differ in their attributes") {
  if (batch == nullptr) return;
  std::vector<unsigned char> host = bytes_of(kBytes, 7);
  sources[1] = address_of(host.data());
  CHECK(copy({attributes(), attributes(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL),
              attributes(CU_MEMCPY_SRC_ACCESS_ORDER_ANY)},
             {0, 1, 2}, stream) == CUDA_SUCCESS);
  // CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL: "all accesses must be complete before the API call
  // returns".
  host.assign(kBytes, 8);
  const std::vector<unsigned char> content = read(target, kCount * kBytes, stream);
  for (std::size_t i = 0; i < content.size(); ++i) REQUIRE(content[i] == (i / kBytes == 1 ? 7 : 4));
}

// "Each memcpy operation in the batch must have a valid CUmemcpyAttributes ... otherwise the API
// will return CUDA_ERROR_INVALID_VALUE"; "the first entry in attrsIdxs must always be 0. Also, each
// entry must be greater than the previous entry and the last entry should be less than count."
TEST_CASE_FIXTURE(BatchCopyFixture, "attributes that do not cover the copies are refused") {
  if (batch == nullptr) return;
  const CUmemcpyAttributes good = attributes();
  const CUmemcpyAttributes none = attributes(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
  CHECK(copy({none}, {0}, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy({good, none}, {0, 1}, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy({good}, {1}, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy({good, good}, {0, 0}, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy({good, good}, {0, kCount}, stream) == CUDA_ERROR_INVALID_VALUE);
}

// "hStream ... Must not be legacy NULL stream."
TEST_CASE_FIXTURE(BatchCopyFixture, "the legacy stream takes no batch") {
  if (batch == nullptr) return;
  CHECK(copy({attributes()}, {0}, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy({attributes()}, {0}, CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy({attributes()}, {0}, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
}

// cuMemcpyWithAttributesAsync: as a batch of one copy.
TEST_CASE_FIXTURE(BatchCopyFixture, "a single copy takes attributes as a batch does") {
  const auto copy_one = CONTRACT_FUNCTION(cuMemcpyWithAttributesAsync, 13020);
  if (copy_one == nullptr) {
    MESSAGE("skipped: needs the single copies of CUDA 13.2");
    return;
  }
  for (const auto order : {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
                           CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL}) {
    CUmemcpyAttributes with = attributes(order);
    fill(target, 0, kBytes, stream);
    driver.stream_synchronize(stream);
    CHECK(copy_one(target, source, kBytes, &with, stream) == CUDA_SUCCESS);
    CHECK(read(target, kBytes, stream) == bytes_of(kBytes, 4));
  }
  CUmemcpyAttributes good = attributes();
  CUmemcpyAttributes none = attributes(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
  CHECK(copy_one(target, source, kBytes, &none, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy_one(target, source, kBytes, &good, CU_STREAM_LEGACY) != CUDA_SUCCESS);
  CHECK(copy_one(target, source, kBytes, &good, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
}

// cuMemcpy3DBatchAsync: "When either of these values is zero, that aspect of the operand is
// considered to be tightly packed according to the copy extent."
TEST_CASE_FIXTURE(BatchCopyFixture, "a batch of volumes copies rows and layers") {
  const auto copy_volumes = CONTRACT_FUNCTION(cuMemcpy3DBatchAsync, 13000);
  if (copy_volumes == nullptr) return;
  constexpr std::size_t kWidth = 64;
  CUDA_MEMCPY3D_BATCH_OP volume{};
  volume.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  volume.src.op.ptr.ptr = source;
  volume.src.op.ptr.rowLength = 2 * kWidth;
  volume.src.op.ptr.layerHeight = 5;
  volume.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  volume.dst.op.ptr.ptr = target;
  volume.extent = {kWidth, 3, 2};
  volume.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  // The first layer of the source begins with 5, the second with 6.
  fill(source, 5, 2 * kWidth * 5, stream);
  fill(source + 2 * kWidth * 5, 6, 2 * kWidth * 5, stream);
  CHECK(copy_volumes(1, &volume, 0, stream) == CUDA_SUCCESS);
  CHECK(read(target, kWidth * 3, stream) == bytes_of(kWidth * 3, 5));
  CHECK(read(target + kWidth * 3, kWidth * 3, stream) == bytes_of(kWidth * 3, 6));
  CHECK(read(target + kWidth * 6, kWidth, stream) == bytes_of(kWidth, 0));
  volume.extent.height = 0;
  CHECK(copy_volumes(1, &volume, 0, stream) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace batch_copy_contract_test
