// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_fixture.hpp"

namespace pointer_attribute_test {

using namespace berth;
using namespace berth::test;

namespace {

template <class T>
T attribute(CUpointer_attribute attribute, CUdeviceptr pointer) {
  T value{};
  OK(CU(cuPointerGetAttribute)(&value, attribute, pointer));
  return value;
}

CUresult ask(CUpointer_attribute attribute, CUdeviceptr pointer) {
  unsigned long long value[2] = {};
  return CU(cuPointerGetAttribute)(value, attribute, pointer);
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture,
                  "a device pointer, also an interior one, resolves to its allocation") {
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUdeviceptr start = make_memory(3000);
  for (const CUdeviceptr pointer : {start, start + 1, start + 2999}) {
    CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CU_MEMORYTYPE_DEVICE);
    CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) == 1);
    CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, pointer) == retain(1));
    CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) == pointer);
    CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) == start);
    CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) == 3000);
    CHECK(ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, start + 3000) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "a pinned host pointer, allocated or registered, resolves to its range") {
  std::vector<char> own(4096);
  OK(CU(cuMemHostRegister)(own.data(), own.size(), 0));
  for (const CUdeviceptr start : {address_of(make_pinned(4096)), address_of(own.data())}) {
    const CUdeviceptr pointer = start + 100;
    CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CU_MEMORYTYPE_HOST);
    CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, pointer) == context);
    CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) == pointer);
    CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer) ==
          reinterpret_cast<void*>(pointer));
    CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) == start);
    CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) == 4096);
  }
}

TEST_CASE_FIXTURE(EagerFixture,
                  "pageable memory, freed memory and invalid addresses are unknown pointers") {
  int local = 0;
  const CUdeviceptr freed = make_memory(512);
  OK(CU(cuMemFree)(freed));
  for (const CUdeviceptr pointer : {address_of(&local), freed, CUdeviceptr{0}, ~CUdeviceptr{0}}) {
    CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CUDA_ERROR_INVALID_VALUE);
    CHECK(ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) == CUDA_ERROR_INVALID_VALUE);
    CHECK(ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(CU(cuPointerGetAttribute)(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, freed) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(ask(CU_POINTER_ATTRIBUTE_P2P_TOKENS, make_memory(512)) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "without a context only the device pointer attribute is refused") {
  const CUdeviceptr pointer = make_memory(512);
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CU_MEMORYTYPE_DEVICE);
  CHECK(ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer) == CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace pointer_attribute_test
