// SPDX-License-Identifier: Apache-2.0
// Queries of addresses other than those of one attribute.
#include <vector>

#include "sim/pool_fixture.hpp"

namespace address_query_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(EagerFixture, "an address range is that of the whole allocation") {
  const CUdeviceptr memory = make_memory(1000);
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  CHECK(CU(cuMemGetAddressRange)(&start, &bytes, memory + 999) == CUDA_SUCCESS);
  CHECK(start == memory);
  CHECK(bytes == 1000);
  const CUdeviceptr pooled = allocate_async(64, nullptr);
  CHECK(CU(cuMemGetAddressRange)(&start, nullptr, pooled + 1) == CUDA_SUCCESS);
  CHECK(start == pooled);
  CHECK(CU(cuMemGetAddressRange)(nullptr, &bytes, pooled) == CUDA_SUCCESS);
  CHECK(bytes == 64);
  CHECK(CU(cuMemGetAddressRange)(nullptr, nullptr, pooled) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "an address range is also that of pinned memory") {
  unsigned char* const pinned = make_pinned(64);
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  CHECK(CU(cuMemGetAddressRange)(&start, &bytes, address_of(pinned) + 63) == CUDA_SUCCESS);
  CHECK(start == address_of(pinned));
  CHECK(bytes == 64);
  CHECK(CU(cuMemGetAddressRange)(&start, &bytes, address_of(pinned) + 64) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE_FIXTURE(EagerFixture, "an address that is no memory of the driver has no range") {
  CUdeviceptr start = 17;
  std::size_t bytes = 17;
  const CUdeviceptr freed = make_memory(64);
  OK(CU(cuMemFree)(freed));
  CUdeviceptr reserved = 0;
  OK(CU(cuMemAddressReserve)(&reserved, kGranule, 0, 0, 0));
  for (const CUdeviceptr wrong : {CUdeviceptr{0}, freed, reserved, address_of(&bytes)})
    CHECK(CU(cuMemGetAddressRange)(&start, &bytes, wrong) == CUDA_ERROR_NOT_FOUND);
  CHECK(start == 17);
  CHECK(bytes == 17);
}

TEST_CASE_FIXTURE(EagerFixture, "pinned memory has one address for host and device") {
  unsigned char* pinned = make_pinned(64);
  std::vector<unsigned char> own(4096);
  OK(CU(cuMemHostRegister)(own.data(), own.size(), 0));
  CUdeviceptr device = 0;
  CHECK(CU(cuMemHostGetDevicePointer)(&device, pinned + 5, 0) == CUDA_SUCCESS);
  CHECK(device == address_of(pinned + 5));
  CHECK(CU(cuMemHostGetDevicePointer)(&device, own.data(), 0) == CUDA_SUCCESS);
  CHECK(device == address_of(own.data()));
  const CUdeviceptr memory = make_memory(64);
  CHECK(CU(cuMemHostGetDevicePointer)(nullptr, pinned, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetDevicePointer)(&device, pinned, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetDevicePointer)(&device, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetDevicePointer)(&device, &device, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetDevicePointer)(&device, reinterpret_cast<void*>(memory), 0) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "the allocation flags of pinned memory can be queried") {
  void* portable = nullptr;
  void* plain = nullptr;
  unsigned flags = 9;
  OK(CU(cuMemHostAlloc)(&portable, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED));
  CHECK(CU(cuMemAllocHost)(&plain, 64) == CUDA_SUCCESS);
  CHECK(CU(cuMemHostGetFlags)(&flags, portable) == CUDA_SUCCESS);
  CHECK(flags == (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED));
  CHECK(CU(cuMemHostGetFlags)(&flags, plain) == CUDA_SUCCESS);
  CHECK(flags == 0);
  std::vector<unsigned char> own(64);
  OK(CU(cuMemHostRegister)(own.data(), own.size(), 0));
  CHECK(CU(cuMemHostGetFlags)(&flags, own.data()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetFlags)(&flags, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetFlags)(nullptr, plain) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeHost)(plain) == CUDA_SUCCESS);
  CHECK(CU(cuMemAllocHost)(nullptr, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocHost)(&plain, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocHost)(&plain, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE_FIXTURE(EagerFixture, "several attributes can be queried at once") {
  const CUdeviceptr memory = make_memory(1000);
  unsigned type = 0;
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  CUdeviceptr device = 0;
  void* host = &host;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* data[] = {&type, &start, &bytes, &device, &host};
  CHECK(CU(cuPointerGetAttributes)(5, attributes, data, memory + 8) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(start == memory);
  CHECK(bytes == 1000);
  CHECK(device == memory + 8);
  CHECK(host == nullptr);
}

TEST_CASE_FIXTURE(EagerFixture, "an invalid list of attributes writes nothing") {
  const CUdeviceptr memory = make_memory(64);
  unsigned type = 9;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_P2P_TOKENS};
  void* data[] = {&type, &type};
  void* holes[] = {nullptr};
  CHECK(CU(cuPointerGetAttributes)(2, attributes, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuPointerGetAttributes)(1, attributes, holes, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuPointerGetAttributes)(0, attributes, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuPointerGetAttributes)(1, nullptr, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuPointerGetAttributes)(1, attributes, nullptr, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(type == 9);
}

}  // namespace address_query_test
