// SPDX-License-Identifier: Apache-2.0
// When the memory of a pool is available, and to which streams it passes.
#include <string>

#include "sim/pool_fixture.hpp"

namespace stream_ordered_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Nothing runs by itself, and a freed piece cannot be replaced by new memory unnoticed: the pool
/// keeps what it has and holds one granule.
struct ReuseFixture : ManualFixture {
  ReuseFixture() : pool(make_pool(0, kGranule)), first(make_stream()), second(make_stream()) {
    set_threshold(pool, UINT64_MAX);
    allow(false, false, false);
  }

  void allow(bool events, bool opportunistic, bool internal) const {
    set_policy(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, events);
    set_policy(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic);
    set_policy(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal);
  }
  /// Allocates all of the pool on `first` and frees it there.
  CUdeviceptr use_all() const {
    const CUdeviceptr pointer = allocate_from(pool, kGranule, first);
    OK(CU(cuMemFreeAsync)(pointer, first));
    return pointer;
  }
  CUresult try_all(CUstream stream) const {
    CUdeviceptr pointer = 0;
    return CU(cuMemAllocFromPoolAsync)(&pointer, kGranule, pool, stream);
  }

  CUmemoryPool pool;
  CUstream first;
  CUstream second;
};

}  // namespace

TEST_CASE_FIXTURE(ManualFixture,
                  "memory freed before its allocation has run is never allocated, and that races") {
  const CUstream owner = make_stream();
  const CUstream other = make_stream();
  const CUdeviceptr memory = allocate_async(512, owner);
  OK(CU(cuMemFreeAsync)(memory, other));
  OK(CU(cuStreamSynchronize)(other));  // the pool gives the memory back
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(sim.run_all() == 1);
  CHECK(sim.peek(memory, 1).empty());
  const std::vector<std::string> found = sim.take_findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].starts_with("race: cuMemFreeAsync "));
  CHECK(found[0].find(" frees 512 B") < found[0].find(", while cuMemAllocAsync "));
  CHECK(found[0].find("nothing orders the one after the other") != std::string::npos);
}

TEST_CASE_FIXTURE(ManualFixture, "the host frees pool memory whose allocation has not run") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate_async(512, stream);
  SUBCASE("without waiting: a race") {
    OK(CU(cuMemFree)(memory));
    const std::vector<std::string> found = sim.take_findings();
    REQUIRE(found.size() == 1);
    CHECK(found[0].starts_with("race: cuMemFree "));
    CHECK(found[0].find(" ends 512 B") < found[0].find(", while cuMemAllocAsync "));
  }
  SUBCASE("after it has waited: none") {
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuMemFree)(memory));
    CHECK(sim.take_findings().empty());
  }
}

TEST_CASE_FIXTURE(ManualFixture, "a free that is ordered behind a pending allocation is no race") {
  const CUstream owner = make_stream();
  const CUstream other = make_stream();
  const CUdeviceptr memory = allocate_async(512, owner);
  order(owner, other);
  OK(CU(cuMemFreeAsync)(memory, other));
  OK(CU(cuStreamSynchronize)(other));
  CHECK(sim.take_findings().empty());
}

TEST_CASE_FIXTURE(ManualFixture, "memory is available to work after the allocation on its stream") {
  const CUstream stream = make_stream();
  const CUdeviceptr pointer = allocate_async(64, stream);
  CHECK(sim.peek(pointer, 64).empty());  // the address is known, the memory is not there
  OK(CU(cuMemsetD8Async)(pointer, 7, 64, stream));
  CHECK(sim.run_next(stream));
  CHECK(sim.peek(pointer, 64).size() == 64);
  CHECK(sim.run_next(stream));
  CHECK(sim.peek(pointer, 64) == bytes_of(64, 7));
  OK(CU(cuMemFreeAsync)(pointer, stream));
  CHECK(sim.peek(pointer, 64) == bytes_of(64, 7));
  CHECK(sim.run_next(stream));
  CHECK(sim.peek(pointer, 64).empty());
}

TEST_CASE_FIXTURE(ManualFixture, "work that is not ordered after the allocation faults") {
  const CUstream stream = make_stream();
  const CUdeviceptr pointer = allocate_async(64, stream);
  const CUstream other = make_stream();
  OK(CU(cuMemsetD8Async)(pointer, 1, 64, other));
  CHECK(sim.run_next(other));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(ManualFixture, "work that outlives the free faults") {
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  const CUdeviceptr pointer = allocate_async(64, stream);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemsetD8Async)(pointer, 1, 64, other));  // unordered with the free
  OK(CU(cuMemFreeAsync)(pointer, stream));
  CHECK(sim.run_next(stream));
  CHECK(sim.run_next(other));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(ManualFixture, "later calls refuse an address that its pool has given back") {
  const CUstream stream = make_stream();
  const CUdeviceptr pointer = allocate_async(64, stream);
  CHECK(CU(cuMemFreeAsync)(pointer + 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeAsync)(pointer, stream) == CUDA_SUCCESS);
  CHECK(CU(cuMemFreeAsync)(pointer, stream) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(CU(cuMemsetD8Async)(pointer, 1, 64, stream) == CUDA_ERROR_INVALID_VALUE);
  unsigned type = 0;
  CHECK(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "accesses beyond an allocation and invalid allocations are refused") {
  const CUstream stream = make_stream();
  const CUdeviceptr pointer = allocate_async(100, stream);
  CHECK(pointer % 512 == 0);
  CHECK(CU(cuMemsetD8Async)(pointer, 1, 101, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8Async)(pointer + 99, 1, 1, stream) == CUDA_SUCCESS);
  CUdeviceptr other = 0;
  CHECK(CU(cuMemAllocAsync)(&other, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocAsync)(nullptr, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocAsync)(&other, 1, reinterpret_cast<CUstream>(0x99)) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuMemFreeAsync)(0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeAsync)(make_memory(64), stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ReuseFixture, "a stream reuses its own frees at once") {
  const CUdeviceptr pointer = use_all();
  CHECK(allocate_from(pool, kGranule, first) == pointer);
  OK(CU(cuMemsetD8Async)(pointer, 1, kGranule, first));
  CHECK(CU(cuStreamSynchronize)(first) == CUDA_SUCCESS);
  CHECK(sim.peek(pointer, 64) == bytes_of(64, 1));
}

TEST_CASE_FIXTURE(ReuseFixture, "neighboring free ranges merge and are split to fit") {
  const CUdeviceptr a = allocate_from(pool, kGranule / 2, first);
  const CUdeviceptr b = allocate_from(pool, kGranule / 2, first);
  OK(CU(cuMemFreeAsync)(b, first));
  OK(CU(cuMemFreeAsync)(a, first));
  const CUdeviceptr most = allocate_from(pool, kGranule - 512, first);
  CHECK(most == a);
  CHECK(allocate_from(pool, 512, first) == a + kGranule - 512);
}

TEST_CASE_FIXTURE(ReuseFixture,
                  "without a policy another stream waits for the host to see the free") {
  use_all();
  CHECK(try_all(second) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(sim.run_all() == 2);
  CHECK(try_all(second) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuStreamSynchronize)(first));
  CHECK(try_all(second) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(
    ReuseFixture,
    "an event after the free passes memory to another stream, and an earlier one does not") {
  allow(true, false, false);
  const CUevent early = make_event();
  const CUevent late = make_event();
  const CUdeviceptr pointer = allocate_from(pool, kGranule, first);
  OK(CU(cuEventRecord)(early, first));
  OK(CU(cuMemFreeAsync)(pointer, first));
  OK(CU(cuEventRecord)(late, first));
  OK(CU(cuStreamWaitEvent)(second, early, 0));
  CHECK(try_all(second) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuStreamWaitEvent)(second, late, 0));
  CHECK(try_all(second) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ReuseFixture, "event dependencies carry over streams, and need the policy") {
  const CUstream third = make_stream();
  const CUevent event = make_event();
  use_all();
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  OK(CU(cuEventRecord)(event, second));
  OK(CU(cuStreamWaitEvent)(third, event, 0));
  CHECK(try_all(third) == CUDA_ERROR_OUT_OF_MEMORY);
  allow(true, false, false);
  CHECK(try_all(third) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ReuseFixture, "a wait for work before a stream's own wait orders nothing") {
  allow(true, false, false);
  const CUstream third = make_stream();
  const CUevent freed = make_event();
  const CUevent before = make_event();
  use_all();
  OK(CU(cuEventRecord)(freed, first));
  OK(CU(cuEventRecord)(before, second));
  OK(CU(cuStreamWaitEvent)(second, freed, 0));  // after `before` was recorded
  OK(CU(cuStreamWaitEvent)(third, before, 0));
  CHECK(try_all(third) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(try_all(second) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ReuseFixture, "the legacy stream passes memory between blocking streams") {
  allow(true, false, false);
  const CUstream one = make_stream(CU_STREAM_DEFAULT);
  const CUstream two = make_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr scratch = make_memory(64);
  const CUdeviceptr pointer = allocate_from(pool, kGranule, one);
  OK(CU(cuMemFreeAsync)(pointer, one));
  CHECK(try_all(two) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemsetD8Async)(scratch, 1, 64, nullptr));
  CHECK(try_all(second) == CUDA_ERROR_OUT_OF_MEMORY);  // a non-blocking stream
  CHECK(try_all(two) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ReuseFixture, "the legacy stream itself follows every blocking stream") {
  allow(true, false, false);
  const CUstream one = make_stream(CU_STREAM_DEFAULT);
  OK(CU(cuMemFreeAsync)(allocate_from(pool, kGranule, one), one));
  CHECK(try_all(nullptr) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ReuseFixture, "opportunistic reuse takes memory whose free has run") {
  allow(false, true, false);
  use_all();
  CHECK(try_all(second) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(sim.run_all() == 2);
  CHECK(try_all(second) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ReuseFixture, "internal dependencies make the new stream wait for the free") {
  allow(false, false, true);
  const CUdeviceptr old = allocate_from(pool, kGranule, first);
  OK(CU(cuMemsetD8Async)(old, 1, kGranule, first));
  OK(CU(cuMemFreeAsync)(old, first));
  const CUdeviceptr pointer = allocate_from(pool, kGranule, second);
  CHECK(pointer == old);
  OK(CU(cuMemsetD8Async)(pointer, 2, kGranule, second));
  CHECK_FALSE(sim.run_next(second));
  OK(CU(cuStreamSynchronize)(second));
  CHECK(sim.peek(pointer, 64) == bytes_of(64, 2));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "new memory is preferred to waiting for another stream") {
  const CUmemoryPool pool = default_pool();
  const CUstream stream = make_stream();
  const CUdeviceptr freed = allocate_async(kGranule, stream);
  OK(CU(cuMemFreeAsync)(freed, stream));
  const CUstream other = make_stream();
  CHECK(allocate_async(kGranule, other) != freed);
  CHECK(reserved(pool) == 2 * kGranule);
  CHECK(sim.run_next(other));
}

TEST_CASE_FIXTURE(
    ManualFixture,
    "cuMemFree frees pool memory without waiting, even before its allocation has run") {
  const CUstream stream = make_stream();
  const CUdeviceptr pending = allocate_async(64, stream);
  CHECK(CU(cuMemFree)(pending) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(stream) == 1);
  CHECK(CU(cuMemFree)(pending) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.run_all() == 1);
  CHECK(sim.peek(pending, 64).empty());
  const CUdeviceptr arrived = allocate_async(64, stream);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemsetD8Async)(arrived, 1, 64, stream));
  CHECK(CU(cuMemFree)(arrived) == CUDA_SUCCESS);
  CHECK(found_race(sim));
  CHECK(sim.pending_operations(stream) == 1);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a pool of another device serves a stream") {
  const CUmemoryPool pool = make_pool(1);
  const CUstream stream = make_stream();
  const CUdeviceptr pointer = allocate_from(pool, 64, stream);
  int device = -1;
  OK(CU(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
  CHECK(device == 1);
  CHECK(sim.device_bytes_used(0) == 0);
  CHECK(sim.device_bytes_used(1) == kGranule);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "pool memory of a faulted context is available to the next context") {
  const CUstream stream = make_stream();
  const CUdeviceptr pointer = allocate_async(64, stream);
  OK(CU(cuStreamSynchronize)(stream));
  const CUdeviceptr gone = allocate_async(64, stream);
  OK(CU(cuMemFreeAsync)(pointer, stream));
  OK(CU(cuMemsetD8Async)(gone, 1, 64, make_stream()));
  OK(CU(cuMemFree)(gone));
  CHECK(found_race(sim));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  OK(CU(cuCtxSetCurrent)(retain(0)));
  const CUstream next = make_stream();
  const CUdeviceptr again = allocate_async(1024, next);
  OK(CU(cuMemsetD8Async)(again, 5, 1024, next));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(sim.peek(again, 1024) == bytes_of(1024, 5));
}

TEST_CASE("pool memory survives any legal order of the streams that use it") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const SimFixture fixture("memory=8MiB,progress=random,seed=" + std::to_string(seed));
    CUstream streams[3];
    for (CUstream& stream : streams) stream = make_stream();
    unsigned char* result = make_pinned(24);
    for (unsigned i = 0; i < 24; ++i) {
      const CUstream stream = streams[i * 7 % 3];
      const CUdeviceptr pointer = allocate_async((i % 3 + 1) * (1 << 20), stream);
      OK(CU(cuMemsetD8Async)(pointer, static_cast<unsigned char>(i), 1 << 20, stream));
      OK(CU(cuMemcpyAsync)(address_of(result + i), pointer + 1000, 1, stream));
      OK(CU(cuMemFreeAsync)(pointer, stream));
    }
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
    for (unsigned i = 0; i < 24; ++i) CHECK(result[i] == i);
  }
}

}  // namespace stream_ordered_memory_test
