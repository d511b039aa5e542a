// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Virtual Memory Management". That another process really imports what
// is exported here is tested where both processes can be simulated ones.
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

#include "contract/contract_driver.hpp"

namespace shareable_handle_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kVersion = 10020;
constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

struct ShareContract : ContractFixture {
  ShareContract() {
    int vmm = 0;
    int descriptors = 0;
    driver.try_device_get_attribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                    0);
    driver.try_device_get_attribute(
        &descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0);
    usable = vmm != 0 && descriptors != 0;
    if (!usable) {
      MESSAGE("skipped: the device does not share memory by file descriptors");
      return;
    }
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = kDescriptor;
    driver.mem_get_allocation_granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  }

  [[nodiscard]] CUmemGenericAllocationHandle create() const {
    CUmemGenericAllocationHandle handle = 0;
    driver.mem_create(&handle, bytes, &properties, 0ULL);
    return handle;
  }
  [[nodiscard]] int exported(CUmemGenericAllocationHandle handle) const {
    int descriptor = -1;
    REQUIRE(export_handle(&descriptor, handle, kDescriptor, 0) == CUDA_SUCCESS);
    return descriptor;
  }
  CUresult import(CUmemGenericAllocationHandle& handle, int descriptor) const {
    return import_handle(&handle, reinterpret_cast<void*>(std::intptr_t{descriptor}), kDescriptor);
  }
  [[nodiscard]] CUdeviceptr map(CUmemGenericAllocationHandle handle) const {
    CUdeviceptr pointer = 0;
    driver.mem_address_reserve(&pointer, bytes, std::size_t{0}, CUdeviceptr{0}, 0ULL);
    driver.mem_map(pointer, bytes, std::size_t{0}, handle, 0ULL);
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    driver.mem_set_access(pointer, bytes, &access, std::size_t{1});
    return pointer;
  }
  void unmap(CUdeviceptr pointer) const {
    driver.ctx_synchronize();
    driver.mem_unmap(pointer, bytes);
    driver.mem_address_free(pointer, bytes);
  }

  decltype(&::cuMemExportToShareableHandle) export_handle =
      CONTRACT_FUNCTION(cuMemExportToShareableHandle, kVersion);
  decltype(&::cuMemImportFromShareableHandle) import_handle =
      CONTRACT_FUNCTION(cuMemImportFromShareableHandle, kVersion);
  decltype(&::cuMemRetainAllocationHandle) retain_handle =
      CONTRACT_FUNCTION(cuMemRetainAllocationHandle, 11000);
  decltype(&::cuMemGetAllocationPropertiesFromHandle) properties_of =
      CONTRACT_FUNCTION(cuMemGetAllocationPropertiesFromHandle, kVersion);
  decltype(&::cuMemGetAccess) get_access = CONTRACT_FUNCTION(cuMemGetAccess, kVersion);

  bool usable = false;
  std::size_t bytes = 0;
  CUmemAllocationProp properties{};
};

}  // namespace

// cuMemImportFromShareableHandle: the imported handle is to the same memory.
TEST_CASE_FIXTURE(ShareContract, "an imported handle refers to the exported memory") {
  if (!usable) return;
  const CUmemGenericAllocationHandle handle = create();
  const int descriptor = exported(handle);
  CUmemGenericAllocationHandle again = 0;
  REQUIRE(import(again, descriptor) == CUDA_SUCCESS);
  close(descriptor);
  const CUdeviceptr first = map(handle);
  const CUdeviceptr second = map(again);
  const CUstream stream = make_stream();
  fill(first, 6, 64, stream);
  CHECK(read(second, 64, stream) == bytes_of(64, 6));
  unmap(first);
  unmap(second);
  CHECK(driver.try_mem_release(handle) == CUDA_SUCCESS);
  CHECK(driver.try_mem_release(again) == CUDA_SUCCESS);
  driver.stream_destroy(stream);
}

// cuMemExportToShareableHandle: only a type that was requested at the creation.
TEST_CASE_FIXTURE(ShareContract, "memory created without a shareable handle type is not exported") {
  if (!usable) return;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  const CUmemGenericAllocationHandle handle = create();
  int descriptor = -1;
  CHECK(export_handle(&descriptor, handle, kDescriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_release(handle);
}

// cuMemExportToShareableHandle: flags "must be zero"
TEST_CASE_FIXTURE(ShareContract, "an export with flags is refused") {
  if (!usable) return;
  const CUmemGenericAllocationHandle handle = create();
  int descriptor = -1;
  CHECK(export_handle(&descriptor, handle, kDescriptor, 1) == CUDA_ERROR_INVALID_VALUE);
  driver.mem_release(handle);
}

// cuMemImportFromShareableHandle of what no driver has exported.
TEST_CASE_FIXTURE(ShareContract, "a file descriptor of another object is not imported") {
  if (!usable) return;
  const int descriptor = open("/dev/null", O_RDWR);
  REQUIRE(descriptor >= 0);
  CUmemGenericAllocationHandle handle = 0;
  CHECK(import(handle, descriptor) != CUDA_SUCCESS);
  close(descriptor);
}

// cuMemRetainAllocationHandle: "The address addr, can be any address in a range previously mapped
// by cuMemMap"; each retained handle is released once.
TEST_CASE_FIXTURE(ShareContract, "the handle mapped at an address can be retained") {
  if (!usable) return;
  const CUmemGenericAllocationHandle handle = create();
  const CUdeviceptr pointer = map(handle);
  CUmemGenericAllocationHandle retained = 0;
  CHECK(retain_handle(&retained, reinterpret_cast<void*>(pointer + 64)) == CUDA_SUCCESS);
  CHECK(retained == handle);
  CHECK(driver.try_mem_release(retained) == CUDA_SUCCESS);
  unmap(pointer);
  CHECK(driver.try_mem_release(handle) == CUDA_SUCCESS);
}

// cuMemGetAllocationPropertiesFromHandle
TEST_CASE_FIXTURE(ShareContract, "the creation properties of a handle can be queried") {
  if (!usable) return;
  const CUmemGenericAllocationHandle handle = create();
  CUmemAllocationProp found{};
  CHECK(properties_of(&found, handle) == CUDA_SUCCESS);
  CHECK(found.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(found.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(found.location.id == 0);
  CHECK((found.requestedHandleTypes & kDescriptor) != 0);
  driver.mem_release(handle);
}

// cuMemGetAccess: "Get the access flags set for the given location and ptr"
TEST_CASE_FIXTURE(ShareContract, "the access rights of an address can be queried") {
  if (!usable) return;
  const CUmemGenericAllocationHandle handle = create();
  const CUdeviceptr pointer = map(handle);
  unsigned long long flags = 0;
  CHECK(get_access(&flags, &properties.location, pointer) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  unmap(pointer);
  driver.mem_release(handle);
}

}  // namespace shareable_handle_contract_test
