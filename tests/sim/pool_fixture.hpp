// SPDX-License-Identifier: Apache-2.0
// Short ways to say what tests of memory pools say often.
#pragma once

#include "sim/sim_fixture.hpp"

namespace berth::test {

constexpr std::size_t kGranule = 2 << 20;

inline CUmemoryPool default_pool(CUdevice device = 0) {
  CUmemoryPool pool = nullptr;
  OK(CU(cuDeviceGetDefaultMemPool)(&pool, device));
  return pool;
}

inline CUmemPoolProps pool_properties(int device = 0) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

inline CUmemoryPool make_pool(int device = 0, std::size_t bytes_max = 0) {
  CUmemPoolProps properties = pool_properties(device);
  properties.maxSize = bytes_max;
  CUmemoryPool pool = nullptr;
  OK(CU(cuMemPoolCreate)(&pool, &properties));
  return pool;
}

inline CUdeviceptr allocate_async(std::size_t bytes, CUstream stream) {
  CUdeviceptr pointer = 0;
  OK(CU(cuMemAllocAsync)(&pointer, bytes, stream));
  return pointer;
}

inline CUdeviceptr allocate_from(CUmemoryPool pool, std::size_t bytes, CUstream stream) {
  CUdeviceptr pointer = 0;
  OK(CU(cuMemAllocFromPoolAsync)(&pointer, bytes, pool, stream));
  return pointer;
}

inline std::uint64_t pool_bytes(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  OK(CU(cuMemPoolGetAttribute)(pool, attribute, &value));
  return value;
}
inline std::uint64_t reserved(CUmemoryPool pool) {
  return pool_bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}
inline std::uint64_t used(CUmemoryPool pool) {
  return pool_bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

inline void set_policy(CUmemoryPool pool, CUmemPool_attribute attribute, bool on) {
  int value = on ? 1 : 0;
  OK(CU(cuMemPoolSetAttribute)(pool, attribute, &value));
}
inline void set_threshold(CUmemoryPool pool, cuuint64_t bytes) {
  OK(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

}  // namespace berth::test
