// SPDX-License-Identifier: Apache-2.0
// Pools as objects: attributes, reserved memory, access, ends.
#include "sim/graph_fixture.hpp"
#include "sim/pool_fixture.hpp"

namespace memory_pool_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(EagerFixture, "a device reports support of pools that cannot be shared") {
  int value = 0;
  CHECK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0) ==
        CUDA_SUCCESS);
  CHECK(value == 1);
  CHECK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0) ==
        CUDA_SUCCESS);
  CHECK(value == 0);
  CUmemPoolProps properties = pool_properties();
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool pool = nullptr;
  CHECK(CU(cuMemPoolCreate)(&pool, &properties) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE_FIXTURE(EagerFixture, "a pool reserves whole granules and counts what is in use") {
  const CUmemoryPool pool = default_pool();
  CHECK(reserved(pool) == 0);
  const CUstream stream = make_stream();
  const CUdeviceptr small = allocate_async(1000, stream);
  CHECK(used(pool) == 1024);
  CHECK(reserved(pool) == kGranule);
  CHECK(sim.device_bytes_used(0) == kGranule);
  const CUdeviceptr large = allocate_async(3 * kGranule + 1, stream);
  CHECK(reserved(pool) == 5 * kGranule);
  OK(CU(cuMemFreeAsync)(small, stream));
  OK(CU(cuMemFreeAsync)(large, stream));
  CHECK(used(pool) == 0);
  CHECK(reserved(pool) == 5 * kGranule);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 0);
  CHECK(sim.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "each kind of synchronization returns memory above the threshold") {
  const CUmemoryPool pool = default_pool();
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  for (int kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    OK(CU(cuMemFreeAsync)(allocate_async(kGranule, stream), stream));
    CHECK(CU(cuStreamQuery)(stream) == CUDA_SUCCESS);
    CHECK(reserved(pool) == kGranule);
    if (kind == 0) OK(CU(cuStreamSynchronize)(stream));
    if (kind == 1) OK(CU(cuEventSynchronize)(event));
    if (kind == 2) OK(CU(cuCtxSynchronize)());
    CHECK(reserved(pool) == 0);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "a lower threshold takes effect at the next synchronization") {
  const CUmemoryPool pool = default_pool();
  const CUstream stream = make_stream();
  set_threshold(pool, UINT64_MAX);
  OK(CU(cuMemFreeAsync)(allocate_async(kGranule, stream), stream));
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == kGranule);
  set_threshold(pool, 0);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "growth beyond the threshold returns idle memory that was kept") {
  const CUmemoryPool pool = default_pool();
  const CUstream stream = make_stream();
  set_threshold(pool, 2 * kGranule);
  OK(CU(cuMemFreeAsync)(allocate_async(kGranule, stream), stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == kGranule);
  const CUdeviceptr large = allocate_async(2 * kGranule, stream);
  CHECK(reserved(pool) == 3 * kGranule);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 2 * kGranule);
  OK(CU(cuMemFreeAsync)(large, stream));
}

TEST_CASE_FIXTURE(ManualFixture, "a free that the host observes late is returned late") {
  const CUmemoryPool pool = default_pool();
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  OK(CU(cuMemFreeAsync)(allocate_async(kGranule, stream), stream));
  for (int count = 0; count < 3; ++count) {
    OK(CU(cuMemsetD8Async)(make_memory(1), 1, 1, other));
    OK(CU(cuStreamSynchronize)(other));
    CHECK(reserved(pool) == kGranule);
  }
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "a synchronization keeps the threshold and used memory") {
  const CUmemoryPool pool = default_pool();
  set_threshold(pool, 2 * kGranule + 1);
  const CUstream stream = make_stream();
  std::vector<CUdeviceptr> pointers;
  for (int i = 0; i < 5; ++i) pointers.push_back(allocate_async(kGranule, stream));
  for (const CUdeviceptr pointer : pointers) OK(CU(cuMemFreeAsync)(pointer, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 3 * kGranule);
  const CUdeviceptr kept = allocate_async(kGranule, stream);
  set_threshold(pool, 0);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == kGranule);
  CHECK(CU(cuMemsetD8Async)(kept, 1, kGranule, stream) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "trimming leaves memory whose free the host has not seen") {
  const CUmemoryPool pool = default_pool();
  set_threshold(pool, UINT64_MAX);
  const CUstream stream = make_stream();
  OK(CU(cuMemFreeAsync)(allocate_async(2 * kGranule, stream), stream));
  OK(CU(cuMemPoolTrimTo)(pool, 0));
  CHECK(reserved(pool) == 2 * kGranule);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 2 * kGranule);
  OK(CU(cuMemPoolTrimTo)(pool, kGranule));
  CHECK(reserved(pool) == 2 * kGranule);  // the segment goes whole, or not at all
  OK(CU(cuMemPoolTrimTo)(pool, 0));
  CHECK(reserved(pool) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "peaks can only be reset to the current value") {
  const CUmemoryPool pool = default_pool();
  const CUstream stream = make_stream();
  const CUdeviceptr first = allocate_async(kGranule, stream);
  OK(CU(cuMemFreeAsync)(allocate_async(kGranule, stream), stream));
  OK(CU(cuStreamSynchronize)(stream));
  for (const auto peak : {CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH}) {
    CHECK(pool_bytes(pool, peak) == 2 * kGranule);
    cuuint64_t value = 1;
    CHECK(CU(cuMemPoolSetAttribute)(pool, peak, &value) == CUDA_ERROR_INVALID_VALUE);
    value = 0;
    CHECK(CU(cuMemPoolSetAttribute)(pool, peak, &value) == CUDA_SUCCESS);
    CHECK(pool_bytes(pool, peak) == kGranule);
  }
  cuuint64_t value = 0;
  for (const auto current :
       {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT})
    CHECK(CU(cuMemPoolSetAttribute)(pool, current, &value) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFreeAsync)(first, stream));
}

TEST_CASE_FIXTURE(EagerFixture, "allocations fail at the device's memory and at the pool's limit") {
  const CUstream stream = make_stream();
  CUdeviceptr pointer = 0;
  CHECK(CU(cuMemAllocAsync)(&pointer, SIZE_MAX, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemAllocAsync)(&pointer, (1U << 30) + 1, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemAllocAsync)(&pointer, 1U << 30, stream) == CUDA_SUCCESS);
  CUdeviceptr other = 0;
  CHECK(CU(cuMemAllocAsync)(&other, 1, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemFreeAsync)(pointer, stream));
  OK(CU(cuStreamSynchronize)(stream));
  const CUmemoryPool limited = make_pool(0, 3 * kGranule);
  allocate_from(limited, 2 * kGranule, stream);
  CHECK(CU(cuMemAllocFromPoolAsync)(&other, 2 * kGranule, limited, stream) ==
        CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemAllocFromPoolAsync)(&other, kGranule, limited, stream) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "idle pieces that are too small are returned for a larger one") {
  const CUmemoryPool pool = default_pool();
  set_threshold(pool, UINT64_MAX);
  const CUstream stream = make_stream();
  std::vector<CUdeviceptr> pointers;
  for (int i = 0; i < 512; ++i) pointers.push_back(allocate_async(kGranule, stream));
  for (const CUdeviceptr pointer : pointers) OK(CU(cuMemFreeAsync)(pointer, stream));
  CUdeviceptr whole = 0;
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(reserved(pool) == 512 * kGranule);
  CHECK(CU(cuMemAllocAsync)(&whole, 512 * kGranule, stream) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "a device allocates from the pool that was set") {
  const CUstream stream = make_stream();
  const CUmemoryPool pool = make_pool();
  CUmemoryPool current = nullptr;
  OK(CU(cuDeviceGetMemPool)(&current, 0));
  CHECK(current == default_pool());
  CHECK(CU(cuDeviceSetMemPool)(1, pool) == CUDA_ERROR_INVALID_VALUE);  // of device 0
  CHECK(CU(cuDeviceSetMemPool)(0, pool) == CUDA_SUCCESS);
  OK(CU(cuDeviceGetMemPool)(&current, 0));
  CHECK(current == pool);
  const CUdeviceptr pointer = allocate_async(512, stream);
  CHECK(used(pool) == 512);
  CHECK(used(default_pool()) == 0);
  CUmemoryPool owner = nullptr;
  CHECK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer) ==
        CUDA_SUCCESS);
  CHECK(owner == pool);
  CHECK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, make_memory(512)) ==
        CUDA_SUCCESS);
  CHECK(owner == nullptr);
  OK(CU(cuMemPoolDestroy)(pool));
  OK(CU(cuDeviceGetMemPool)(&current, 0));
  CHECK(current == default_pool());
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a destroyed pool lives until its allocations are freed, but is not accessible") {
  const CUstream stream = make_stream();
  const CUmemoryPool pool = make_pool();
  const CUdeviceptr pointer = allocate_from(pool, 512, stream);
  CHECK(sim.live().pools == 1);
  OK(CU(cuMemPoolDestroy)(pool));
  CHECK(sim.live().pools == 1);
  CUdeviceptr other = 0;
  cuuint64_t value = 0;
  CHECK(CU(cuMemAllocFromPoolAsync)(&other, 512, pool, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolDestroy)(pool) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemsetD8Async)(pointer, 1, 512, stream));
  OK(CU(cuMemFreeAsync)(pointer, stream));
  CHECK(sim.device_bytes_used(0) == kGranule);
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(sim.live().pools == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "an empty pool ends at once, a default pool never") {
  const CUmemoryPool pool = make_pool();
  CHECK(CU(cuMemPoolDestroy)(pool) == CUDA_SUCCESS);
  CHECK(sim.live().pools == 0);
  CHECK(CU(cuMemPoolDestroy)(default_pool()) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "only the pool's access opens its memory to another device") {
  const CUmemoryPool pool = default_pool();
  const CUdeviceptr before = allocate_async(512, nullptr);
  OK(CU(cuStreamSynchronize)(nullptr));
  OK(CU(cuCtxSetCurrent)(retain(1)));
  OK(CU(cuCtxEnablePeerAccess)(context, 0));
  CHECK(CU(cuMemsetD8Async)(before, 1, 512, nullptr) == CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc access = access_for(1);
  CHECK(CU(cuMemPoolSetAccess)(pool, &access, 1) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8Async)(before, 1, 512, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8Async)(allocate_from(pool, 512, nullptr), 1, 512, nullptr) == CUDA_SUCCESS);
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation location = access.location;
  CHECK(CU(cuMemPoolGetAccess)(&flags, pool, &location) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUmemAccessDesc closed = access_for(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(CU(cuMemPoolSetAccess)(pool, &closed, 1) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8Async)(before, 1, 512, nullptr) == CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc own = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(CU(cuMemPoolSetAccess)(pool, &own, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "pool functions refuse invalid arguments") {
  CUmemoryPool pool = nullptr;
  CUmemPoolProps properties = pool_properties();
  const auto forged = reinterpret_cast<CUmemoryPool>(0x1234);
  cuuint64_t value = 0;
  CHECK(CU(cuMemPoolCreate)(nullptr, &properties) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolCreate)(&pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
  properties.location.id = 2;
  CHECK(CU(cuMemPoolCreate)(&pool, &properties) == CUDA_ERROR_INVALID_DEVICE);
  properties = pool_properties();
  properties.reserved[53] = 1;
  CHECK(CU(cuMemPoolCreate)(&pool, &properties) == CUDA_ERROR_INVALID_VALUE);
  properties = pool_properties();
  properties.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  CHECK(CU(cuMemPoolCreate)(&pool, &properties) == CUDA_ERROR_INVALID_VALUE);
  properties = pool_properties();
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CHECK(CU(cuMemPoolCreate)(&pool, &properties) == CUDA_ERROR_NOT_SUPPORTED);
  for (const CUmemoryPool wrong : {CUmemoryPool{nullptr}, forged}) {
    CHECK(CU(cuMemPoolDestroy)(wrong) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemPoolTrimTo)(wrong, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuDeviceSetMemPool)(0, wrong) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemPoolSetAttribute)(wrong, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value) ==
          CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr pointer = 0;
    CHECK(CU(cuMemAllocFromPoolAsync)(&pointer, 512, wrong, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
  pool = default_pool();
  const auto unknown = static_cast<CUmemPool_attribute>(15);
  CHECK(CU(cuMemPoolGetAttribute)(pool, unknown, &value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolSetAttribute)(pool, unknown, &value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolSetAccess)(pool, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemPoolGetAccess)(nullptr, pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetDefaultMemPool)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetDefaultMemPool)(&pool, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuDeviceGetMemPool)(&pool, -1) == CUDA_ERROR_INVALID_DEVICE);
}

// Bindings pass handles as signed numbers.
TEST_CASE_FIXTURE(EagerFixture, "no handle is negative as a signed number") {
  const CUgraphExec exec = make_executable(capture([](CUstream) {}));
  CUuserObject object = nullptr;
  OK(CU(cuUserObjectCreate)(
      &object, nullptr, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  for (const void* handle : {static_cast<void*>(make_pool()), static_cast<void*>(default_pool()),
                             static_cast<void*>(exec), static_cast<void*>(object)})
    CHECK(reinterpret_cast<std::intptr_t>(handle) > 0);
  OK(CU(cuUserObjectRelease)(object, 1));
}

}  // namespace memory_pool_test
