// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream Ordered Memory Allocator"; CUDA Programming Guide, "Stream
// Ordered Memory Allocator". Each case has a pool of its own.
#include "contract/contract_driver.hpp"

namespace pool_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4 << 20;
constexpr int kVersion = 11020;

struct PoolFixture : ContractFixture {
  PoolFixture() {
    int supported = 0;
    driver.try_device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);
    if (supported == 0) {
      MESSAGE("skipped: the device has no memory pools");
      return;
    }
    usable = true;
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    REQUIRE(create(&pool, &properties) == CUDA_SUCCESS);
    stream = make_stream();
    other = make_stream();
  }
  ~PoolFixture() {
    if (!usable) return;
    driver.try_ctx_synchronize();
    destroy(pool);
    driver.try_stream_destroy(stream);
    driver.try_stream_destroy(other);
  }

  [[nodiscard]] CUdeviceptr allocate(std::size_t bytes, CUstream on) const {
    CUdeviceptr pointer = 0;
    REQUIRE(allocate_from(&pointer, bytes, pool, on) == CUDA_SUCCESS);
    return pointer;
  }
  [[nodiscard]] cuuint64_t bytes(CUmemPool_attribute attribute) const {
    cuuint64_t value = 0;
    REQUIRE(get(pool, attribute, &value) == CUDA_SUCCESS);
    return value;
  }
  [[nodiscard]] cuuint64_t reserved() const { return bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  void keep_everything() const {
    cuuint64_t most = UINT64_MAX;
    REQUIRE(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most) == CUDA_SUCCESS);
  }
  void allow(CUmemPool_attribute policy, int value) const {
    REQUIRE(set(pool, policy, &value) == CUDA_SUCCESS);
  }
  void allow_nothing() const {
    allow(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
    allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
    allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  }

  decltype(&::cuMemPoolCreate) create = CONTRACT_FUNCTION(cuMemPoolCreate, kVersion);
  decltype(&::cuMemPoolDestroy) destroy = CONTRACT_FUNCTION(cuMemPoolDestroy, kVersion);
  decltype(&::cuMemPoolSetAttribute) set = CONTRACT_FUNCTION(cuMemPoolSetAttribute, kVersion);
  decltype(&::cuMemPoolGetAttribute) get = CONTRACT_FUNCTION(cuMemPoolGetAttribute, kVersion);
  decltype(&::cuMemPoolTrimTo) trim = CONTRACT_FUNCTION(cuMemPoolTrimTo, kVersion);
  decltype(&::cuMemAllocFromPoolAsync) allocate_from =
      CONTRACT_FUNCTION(cuMemAllocFromPoolAsync, kVersion);
  decltype(&::cuMemAllocAsync) allocate_async = CONTRACT_FUNCTION(cuMemAllocAsync, kVersion);
  decltype(&::cuMemFreeAsync) free_async = CONTRACT_FUNCTION(cuMemFreeAsync, kVersion);
  decltype(&::cuDeviceGetMemPool) device_pool = CONTRACT_FUNCTION(cuDeviceGetMemPool, kVersion);
  decltype(&::cuDeviceGetDefaultMemPool) device_default_pool =
      CONTRACT_FUNCTION(cuDeviceGetDefaultMemPool, kVersion);
  decltype(&::cuDeviceSetMemPool) set_device_pool = CONTRACT_FUNCTION(cuDeviceSetMemPool, kVersion);

  bool usable = false;
  CUmemoryPool pool = nullptr;
  CUstream stream = nullptr;
  CUstream other = nullptr;
};

}  // namespace

// cuMemAllocAsync: "A pointer to the allocated memory is returned immediately"; basic stream
// ordering lets later work of the same stream use it.
TEST_CASE_FIXTURE(PoolFixture, "pool memory is used by what follows on its stream, then freed") {
  if (!usable) return;
  const CUdeviceptr pointer = allocate(kBytes, stream);
  fill(pointer, 9, kBytes, stream);
  CHECK(read(pointer + kBytes - 100, 100, stream) == bytes_of(100, 9));
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  CHECK(driver.try_stream_synchronize(stream) == CUDA_SUCCESS);
}

// cuMemAllocAsync: events make the allocation usable on another stream.
TEST_CASE_FIXTURE(PoolFixture, "an event passes pool memory to another stream, which may free it") {
  if (!usable) return;
  const CUevent event = make_event();
  const CUdeviceptr pointer = allocate(kBytes, stream);
  driver.event_record(event, stream);
  driver.stream_wait_event(other, event, 0U);
  fill(pointer, 3, kBytes, other);
  CHECK(read(pointer, 64, other) == bytes_of(64, 3));
  CHECK(free_async(pointer, other) == CUDA_SUCCESS);
  driver.event_destroy(event);
}

// CUmemPoolProps: "Bitmask indicating intended usage for the pool", of which there is one bit. A
// driver before CUDA 12.8 knows none.
TEST_CASE_FIXTURE(PoolFixture, "a pool can be created for hardware decompression") {
  if (!usable || driver.version() < 12080) return;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS;
  CUmemoryPool meant = nullptr;
  REQUIRE(create(&meant, &properties) == CUDA_SUCCESS);
  CHECK(destroy(meant) == CUDA_SUCCESS);
  properties.usage = 0x40;
  CHECK(create(&meant, &properties) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemSetMemPool: "If the location type is CU_MEM_LOCATION_TYPE_DEVICE and the allocation type is
// CU_MEM_ALLOCATION_TYPE_PINNED, then this API is the equivalent of calling cuDeviceSetMemPool".
TEST_CASE_FIXTURE(PoolFixture, "a location has the default and current pools of its device") {
  auto* const get_default = CONTRACT_FUNCTION(cuMemGetDefaultMemPool, 13000);
  auto* const get_current = CONTRACT_FUNCTION(cuMemGetMemPool, 13000);
  auto* const set_current = CONTRACT_FUNCTION(cuMemSetMemPool, 13000);
  if (!usable || get_default == nullptr) {
    MESSAGE("skipped: needs memory pools by location, of CUDA 13");
    return;
  }
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool found = nullptr;
  CUmemoryPool of_device = nullptr;
  CHECK(get_default(&found, &here, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
  CHECK(device_default_pool(&of_device, 0) == CUDA_SUCCESS);
  CHECK(found == of_device);
  CHECK(set_current(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool) == CUDA_SUCCESS);
  CHECK(get_current(&found, &here, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_SUCCESS);
  CHECK(found == pool);
  CHECK(device_pool(&found, 0) == CUDA_SUCCESS);
  CHECK(found == pool);
  CHECK(set_current(&here, CU_MEM_ALLOCATION_TYPE_PINNED, of_device) == CUDA_SUCCESS);
  CHECK(get_current(&found, &here, CU_MEM_ALLOCATION_TYPE_INVALID) == CUDA_ERROR_INVALID_VALUE);
  here.type = CU_MEM_LOCATION_TYPE_NONE;
  CHECK(get_current(&found, &here, CU_MEM_ALLOCATION_TYPE_PINNED) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemPoolGetAttribute: the defaults are 0 and enabled.
TEST_CASE_FIXTURE(PoolFixture, "a new pool keeps nothing and allows every reuse") {
  if (!usable) return;
  CHECK(bytes(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == 0);
  for (const auto policy :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int value = -1;
    CHECK(get(pool, policy, &value) == CUDA_SUCCESS);
    CHECK(value == 1);
  }
  CHECK(reserved() == 0);
}

// CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: more than that goes back on the next synchronization.
TEST_CASE_FIXTURE(PoolFixture, "a synchronization returns memory above the threshold") {
  if (!usable) return;
  const CUdeviceptr pointer = allocate(kBytes, stream);
  CHECK(reserved() >= kBytes);
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(reserved() == 0);
}

TEST_CASE_FIXTURE(PoolFixture, "below the threshold nothing is returned, until a trim") {
  if (!usable) return;
  keep_everything();
  CHECK(free_async(allocate(kBytes, stream), stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(reserved() >= kBytes);
  CHECK(trim(pool, SIZE_MAX) == CUDA_SUCCESS);
  CHECK(reserved() >= kBytes);
  CHECK(trim(pool, 0) == CUDA_SUCCESS);
  CHECK(reserved() == 0);
}

// cuMemPoolTrimTo: "The allocator cannot release OS allocations that back outstanding asynchronous
// allocations."
TEST_CASE_FIXTURE(PoolFixture, "a trim leaves what is allocated alone") {
  if (!usable) return;
  const CUdeviceptr pointer = allocate(kBytes, stream);
  fill(pointer, 6, kBytes, stream);
  driver.stream_synchronize(stream);
  CHECK(trim(pool, 0) == CUDA_SUCCESS);
  CHECK(reserved() >= kBytes);
  CHECK(read(pointer, 64, stream) == bytes_of(64, 6));
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
}

// CU_MEMPOOL_ATTR_USED_MEM_CURRENT, _HIGH; a high watermark can only be reset to zero.
TEST_CASE_FIXTURE(PoolFixture, "used bytes are counted, and their peak can only be reset") {
  if (!usable) return;
  const CUdeviceptr pointer = allocate(kBytes, stream);
  driver.stream_synchronize(stream);
  CHECK(bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= kBytes);
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);
  CHECK(bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
  CHECK(bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= kBytes);
  cuuint64_t value = 1;
  CHECK(set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value) == CUDA_ERROR_INVALID_VALUE);
  value = 0;
  CHECK(set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value) == CUDA_SUCCESS);
  CHECK(bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
}

// Programming Guide, "Reuse Policies": a free is followed by an allocation of the same stream.
TEST_CASE_FIXTURE(PoolFixture, "a stream reuses at once what it freed itself") {
  if (!usable) return;
  keep_everything();
  const CUdeviceptr pointer = allocate(kBytes, stream);
  const cuuint64_t before = reserved();
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  const CUdeviceptr again = allocate(kBytes, stream);
  CHECK(again == pointer);
  CHECK(reserved() == before);
  CHECK(free_async(again, stream) == CUDA_SUCCESS);
}

// CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES.
TEST_CASE_FIXTURE(PoolFixture, "memory follows an event to another stream if the pool allows it") {
  if (!usable) return;
  keep_everything();
  allow_nothing();
  allow(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
  const CUevent event = make_event();
  const CUdeviceptr pointer = allocate(kBytes, stream);
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  driver.event_record(event, stream);
  driver.stream_wait_event(other, event, 0U);
  const CUdeviceptr again = allocate(kBytes, other);
  CHECK(again == pointer);
  CHECK(free_async(again, other) == CUDA_SUCCESS);
  driver.event_destroy(event);
}

// The same, without the dependency: the memory must not be handed over.
TEST_CASE_FIXTURE(PoolFixture, "without a policy another stream gets other memory") {
  if (!usable) return;
  keep_everything();
  allow_nothing();
  const CUdeviceptr pointer = allocate(kBytes, stream);
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  const CUdeviceptr another = allocate(kBytes, other);
  CHECK(another != pointer);
  CHECK(free_async(another, other) == CUDA_SUCCESS);
}

// CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: completed frees only.
TEST_CASE_FIXTURE(PoolFixture, "opportunistic reuse does not take memory still in use") {
  if (!usable) return;
  keep_everything();
  allow(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  const CUdeviceptr warm = allocate(2 * kBytes, stream);
  const CUdeviceptr pointer = allocate(kBytes, stream);
  CHECK(free_async(warm, stream) == CUDA_SUCCESS);
  driver.stream_synchronize(stream);  // so that nothing must grow below
  unsigned char* result = make_pinned(1);
  Gate gate(driver, stream);
  fill(pointer, 1, kBytes, stream);
  driver.memcpy_async(address_of(result), pointer, std::size_t{1}, stream);
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  const CUdeviceptr another = allocate(kBytes, other);
  fill(another, 2, kBytes, other);
  CHECK(another != pointer);
  gate.open();
  driver.ctx_synchronize();
  CHECK(*result == 1);
  CHECK(free_async(another, other) == CUDA_SUCCESS);
  driver.mem_free_host(static_cast<void*>(result));
}

// cuMemPoolDestroy: returns at once; what is allocated stays until it is freed.
TEST_CASE_FIXTURE(PoolFixture, "memory outlives the destruction of its pool") {
  if (!usable) return;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool short_lived = nullptr;
  CHECK(create(&short_lived, &properties) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CHECK(allocate_from(&pointer, kBytes, short_lived, stream) == CUDA_SUCCESS);
  CHECK(destroy(short_lived) == CUDA_SUCCESS);
  fill(pointer, 5, kBytes, stream);
  CHECK(read(pointer, 64, stream) == bytes_of(64, 5));
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
}

// cuDeviceSetMemPool; cuMemPoolDestroy: "sets the default mempool of that device as the current".
TEST_CASE_FIXTURE(PoolFixture,
                  "a device allocates from its current pool, which is initially the default") {
  if (!usable) return;
  CUmemoryPool first = nullptr;
  CUmemoryPool current = nullptr;
  CHECK(device_default_pool(&first, 0) == CUDA_SUCCESS);
  CHECK(device_pool(&current, 0) == CUDA_SUCCESS);
  CHECK(current == first);
  CHECK(set_device_pool(0, pool) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CHECK(allocate_async(&pointer, kBytes, stream) == CUDA_SUCCESS);
  CHECK(bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= kBytes);
  CUmemoryPool owner = nullptr;
  driver.pointer_get_attribute(static_cast<void*>(&owner), CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                               pointer);
  CHECK(owner == pool);
  CHECK(free_async(pointer, stream) == CUDA_SUCCESS);
  CHECK(set_device_pool(0, first) == CUDA_SUCCESS);
}

// cuMemPoolDestroy: "A device's default memory pool cannot be destroyed."
TEST_CASE_FIXTURE(PoolFixture, "the default pool cannot be destroyed") {
  if (!usable) return;
  CUmemoryPool first = nullptr;
  CHECK(device_default_pool(&first, 0) == CUDA_SUCCESS);
  CHECK(destroy(first) == CUDA_ERROR_INVALID_VALUE);
}

// cuMemFree: may free a pool's memory, and does not synchronize then.
TEST_CASE_FIXTURE(PoolFixture, "cuMemFree frees pool memory once its work is done") {
  if (!usable) return;
  const CUdeviceptr pointer = allocate(kBytes, stream);
  fill(pointer, 1, kBytes, stream);
  driver.stream_synchronize(stream);
  CHECK(driver.try_mem_free(pointer) == CUDA_SUCCESS);
  CHECK(bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
}

// cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE.
TEST_CASE_FIXTURE(PoolFixture, "an impossible allocation is refused and has no other effect") {
  if (!usable) return;
  std::size_t free = 0;
  std::size_t total = 0;
  driver.mem_get_info(&free, &total);
  CUdeviceptr pointer = 0;
  CHECK(allocate_from(&pointer, total + 1, pool, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(allocate_from(nullptr, 512, pool, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(free_async(allocate(512, stream), stream) == CUDA_SUCCESS);
}

}  // namespace pool_contract_test
