// SPDX-License-Identifier: Apache-2.0
// What the cases about virtual memory begin with. Where device 0 has none, `supported` is false,
// and the case says that it is skipped.
#pragma once

#include <cstddef>

#include "contract/contract_driver.hpp"

namespace berth::test {

using Block = CUmemGenericAllocationHandle;

/// One stream, one reservation of four granules; what a case maps, it unmaps.
struct VirtualFixture : ContractFixture {
  VirtualFixture() {
    int value = 0;
    driver.device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    supported = value == 1;
    if (!supported) {
      MESSAGE("skipped: device 0 has no virtual memory management");
      return;
    }
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 0;
    driver.mem_get_allocation_granularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    driver.mem_address_reserve(&base, 4 * granule, std::size_t{0}, CUdeviceptr{0}, 0ULL);
    stream = make_stream();
  }
  ~VirtualFixture() {
    if (!supported) return;
    CHECK(driver.try_mem_address_free(base, 4 * granule) == CUDA_SUCCESS);
    driver.try_stream_destroy(stream);
  }

  [[nodiscard]] Block create(std::size_t granules = 1) const {
    Block block = 0;
    driver.mem_create(&block, granules * granule, &properties, 0ULL);
    return block;
  }
  [[nodiscard]] CUdeviceptr at(std::size_t index) const { return base + index * granule; }
  [[nodiscard]] CUresult map(std::size_t index, Block block, std::size_t granules = 1) const {
    return driver.try_mem_map(at(index), granules * granule, std::size_t{0}, block, 0ULL);
  }
  [[nodiscard]] CUresult unmap(std::size_t index, std::size_t granules = 1) const {
    return driver.try_mem_unmap(at(index), granules * granule);
  }
  [[nodiscard]] CUresult allow(std::size_t index, std::size_t granules = 1, int device = 0) const {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return driver.try_mem_set_access(at(index), granules * granule, &access, std::size_t{1});
  }

  bool supported = false;
  CUmemAllocationProp properties{};
  std::size_t granule = 0;
  CUdeviceptr base = 0;
  CUstream stream = nullptr;
};

}  // namespace berth::test
