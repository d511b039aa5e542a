// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "sim/sim_fixture.hpp"

namespace managed_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

CUdeviceptr make_managed(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  OK(CU(cuMemAllocManaged)(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
  return pointer;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "managed allocations are checked, and freed as device memory is") {
  CUdeviceptr pointer = 0;
  CHECK(CU(cuMemAllocManaged)(nullptr, 512, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocManaged)(&pointer, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  for (const unsigned flags : {0U, unsigned{CU_MEM_ATTACH_SINGLE}, 3U})
    CHECK(CU(cuMemAllocManaged)(&pointer, 512, flags) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemAllocManaged)(&pointer, SIZE_MAX, CU_MEM_ATTACH_HOST) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemAllocManaged)(&pointer, 8192, CU_MEM_ATTACH_HOST) == CUDA_SUCCESS);
  CHECK(sim.live().managed_allocations == 1);
  CHECK(CU(cuMemFree)(pointer + 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeHost)(reinterpret_cast<void*>(pointer)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(pointer) == CUDA_SUCCESS);
  CHECK(CU(cuMemFree)(pointer) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.live().managed_allocations == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "managed memory takes no device memory") {
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  OK(CU(cuMemGetInfo)(&before, &total));
  const CUdeviceptr managed = make_managed(1_MiB);
  OK(CU(cuMemGetInfo)(&after, &total));
  CHECK(after == before);
  OK(CU(cuMemFree)(managed));
}

TEST_CASE("a free of managed memory waits for the work of every context") {
  SimFixture fixture("devices=2,memory=64MiB,progress=manual");
  const CUdeviceptr managed = make_managed(4096);
  CUcontext own = nullptr;
  OK(CU(cuCtxGetCurrent)(&own));
  CUcontext other = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&other, 1));
  OK(CU(cuCtxSetCurrent)(other));
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(managed, 7, 4096, stream));
  CHECK(fixture.sim.pending_operations(stream) == 1);
  OK(CU(cuCtxSetCurrent)(own));
  OK(CU(cuMemFree)(managed));
  OK(CU(cuCtxSetCurrent)(other));
  CHECK(fixture.sim.pending_operations(stream) == 0);
  OK(CU(cuStreamDestroy)(stream));
  OK(CU(cuCtxSetCurrent)(own));
  OK(CU(cuDevicePrimaryCtxRelease)(1));
}

TEST_CASE_FIXTURE(EagerFixture, "a context that ends with managed memory has leaked it") {
  make_managed(4096);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  const std::vector<std::string> found = sim.take_findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("1 managed allocation of 4096 B") != std::string::npos);
}

TEST_CASE("the first prefetch takes the time of a copy, and a second none") {
  SimFixture timed("memory=1GiB,progress=timed");
  constexpr std::size_t kLarge = 64 << 20;
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocManaged)(&memory, kLarge, CU_MEM_ATTACH_GLOBAL));
  const CUstream stream = make_stream();
  const auto prefetch_ns = [&](CUmemLocation to) {
    const std::uint64_t begin_ns = timed.sim.now_ns();
    OK(CU(cuMemPrefetchAsync)(memory, kLarge, to, 0, stream));
    OK(CU(cuStreamSynchronize)(stream));
    return timed.sim.now_ns() - begin_ns;
  };
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const std::uint64_t first_ns = prefetch_ns(device);
  CHECK(first_ns > 100'000);
  CHECK(prefetch_ns(device) < first_ns / 10);
  CHECK(prefetch_ns({CU_MEM_LOCATION_TYPE_HOST, 0}) > 100'000);
  OK(CU(cuMemFree)(memory));
}

TEST_CASE_FIXTURE(EagerFixture, "a prefetch causes no race and cannot be captured") {
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocManaged)(&memory, 1 << 16, CU_MEM_ATTACH_GLOBAL));
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  OK(CU(cuMemsetD8Async)(memory, 1, 1 << 16, first));
  OK(CU(cuMemPrefetchAsync)(memory, 1 << 16, {CU_MEM_LOCATION_TYPE_DEVICE, 1}, 0, second));
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.take_findings().empty());
  OK(CU(cuStreamBeginCapture)(first, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(CU(cuMemPrefetchAsync)(memory, 1, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0, first) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  CHECK(CU(cuStreamEndCapture)(first, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

}  // namespace managed_memory_test
