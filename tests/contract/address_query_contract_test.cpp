// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemGetAddressRange, cuMemHostGetDevicePointer, cuMemHostGetFlags,
// cuPointerGetAttributes.
#include <array>

#include "contract/contract_driver.hpp"

namespace address_query_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1 << 20;

struct AddressQueryFixture : ContractFixture {
  AddressQueryFixture() : device(make_memory(kBytes)), pinned(make_pinned(kBytes)) {}
  ~AddressQueryFixture() {
    driver.try_mem_free(device);
    driver.try_mem_free_host(static_cast<void*>(pinned));
  }

  decltype(&::cuMemGetAddressRange) get_range = CONTRACT_FUNCTION(cuMemGetAddressRange, 3020);
  decltype(&::cuMemHostGetDevicePointer) get_device_pointer =
      CONTRACT_FUNCTION(cuMemHostGetDevicePointer, 3020);
  decltype(&::cuMemHostGetFlags) get_flags = CONTRACT_FUNCTION(cuMemHostGetFlags, 2030);
  decltype(&::cuMemAllocHost) allocate_host = CONTRACT_FUNCTION(cuMemAllocHost, 3020);
  decltype(&::cuPointerGetAttributes) get_attributes =
      CONTRACT_FUNCTION(cuPointerGetAttributes, 7000);

  CUdeviceptr device;
  unsigned char* pinned;
};

}  // namespace

// cuMemGetAddressRange: "the base address in *pbase and size in *psize of the allocation ... that
// contains the input pointer dptr. Both parameters pbase and psize are optional."
TEST_CASE_FIXTURE(AddressQueryFixture,
                  "the address range of any address is that of its whole allocation") {
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  CHECK(get_range(&start, &bytes, device + kBytes - 1) == CUDA_SUCCESS);
  CHECK(start == device);
  CHECK(bytes == kBytes);
  CHECK(get_range(nullptr, nullptr, device) == CUDA_SUCCESS);
  const int local = 0;
  CHECK(get_range(&start, &bytes, address_of(&local)) == CUDA_ERROR_NOT_FOUND);
}

// cuMemAllocHost: "The device pointer that may be used to access this host memory from those
// contexts is always equal to the returned host pointer".
TEST_CASE_FIXTURE(AddressQueryFixture, "pinned memory has the same address on the device") {
  CUdeviceptr found = 0;
  CHECK(get_device_pointer(&found, pinned, 0) == CUDA_SUCCESS);
  CHECK(found == address_of(pinned));
  CHECK(get_device_pointer(&found, pinned, 1) == CUDA_ERROR_INVALID_VALUE);
  void* plain = nullptr;
  CHECK(allocate_host(&plain, 4096) == CUDA_SUCCESS);
  CHECK(get_device_pointer(&found, plain, 0) == CUDA_SUCCESS);
  CHECK(found == address_of(static_cast<char*>(plain)));
  driver.mem_free_host(plain);
}

// cuMemHostGetFlags: "the flags pFlags that were specified when allocating the pinned host buffer";
// "will fail if the pointer does not reside in an allocation".
TEST_CASE_FIXTURE(AddressQueryFixture, "the allocation flags of pinned memory can be queried") {
  void* combined = nullptr;
  unsigned flags = 0;
  driver.mem_host_alloc(&combined, kBytes, unsigned{CU_MEMHOSTALLOC_WRITECOMBINED});
  CHECK(get_flags(&flags, combined) == CUDA_SUCCESS);
  CHECK((flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0);
  CHECK(get_flags(&flags, pinned) == CUDA_SUCCESS);
  CHECK((flags & CU_MEMHOSTALLOC_WRITECOMBINED) == 0);
  CHECK(get_flags(&flags, &flags) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_free_host(combined);
}

// cuPointerGetAttributes: "this function will not return an error when the ptr encountered is not a
// valid CUDA pointer. Instead, the attributes are assigned default NULL values".
TEST_CASE_FIXTURE(AddressQueryFixture,
                  "attributes of an unknown pointer are null, which is no error") {
  unsigned type = 99;
  CUcontext owner = context;
  std::array<CUpointer_attribute, 2> attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                CU_POINTER_ATTRIBUTE_CONTEXT};
  std::array<void*, 2> data{&type, &owner};
  CHECK(get_attributes(2, attributes.data(), data.data(), device) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(owner == context);
  CHECK(get_attributes(2, attributes.data(), data.data(), address_of(&type)) == CUDA_SUCCESS);
  CHECK(type == 0);
  CHECK(owner == nullptr);
}

}  // namespace address_query_contract_test
