// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>
#include <vector>

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

/// Managed memory in virtual time, and the durations of work on it.
struct TimedManaged : SimFixture {
  static constexpr std::size_t kBytes = 64 << 20;
  static constexpr std::uint64_t kKernelNs = 1'000;

  TimedManaged() : SimFixture("devices=2,memory=1GiB,progress=timed") {
    OK(CU(cuMemAllocManaged)(&memory, kBytes, CU_MEM_ATTACH_GLOBAL));
    stream = make_stream();
  }
  template <class Submit>
  std::uint64_t time_ns(const Submit& submit) {
    const std::uint64_t begin_ns = sim.now_ns();
    submit();
    OK(CU(cuStreamSynchronize)(stream));
    return sim.now_ns() - begin_ns;
  }
  std::uint64_t kernel_ns(std::size_t offset = 0, std::size_t bytes = kBytes) {
    void* const start = reinterpret_cast<void*>(memory + offset);
    return time_ns(
        [&] { REQUIRE(sim.launch(stream, kKernelNs, {sim::MemoryUse::write(start, bytes)})); });
  }
  std::uint64_t fill_ns() {
    return time_ns([&] { OK(CU(cuMemsetD8Async)(memory, 1, kBytes, stream)); });
  }
  std::uint64_t copy_ns(CUdeviceptr destination, CUdeviceptr source) {
    return time_ns([&] { OK(CU(cuMemcpyAsync)(destination, source, kBytes, stream)); });
  }
  std::uint64_t prefetch_ns(CUmemLocation to) {
    return time_ns([&] { OK(CU(cuMemPrefetchAsync)(memory, kBytes, to, 0, stream)); });
  }
  void advise(CUmem_advise what, CUmemLocation location) {
    OK(CU(cuMemAdvise)(memory, kBytes, what, location));
  }

  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemLocation other_device{CU_MEM_LOCATION_TYPE_DEVICE, 1};
};

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

TEST_CASE_FIXTURE(TimedManaged, "the first prefetch takes the time of a copy, and a second none") {
  const std::uint64_t first_ns = prefetch_ns(device);
  CHECK(first_ns > 100'000);
  CHECK(prefetch_ns(device) < first_ns / 10);
  CHECK(prefetch_ns(host) > 100'000);
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

TEST_CASE_FIXTURE(TimedManaged, "work moves managed memory to its device once") {
  const std::uint64_t prefetch = prefetch_ns(device);
  const std::uint64_t there = kernel_ns();
  CHECK(there < prefetch / 10);
  prefetch_ns(host);
  CHECK(kernel_ns() > prefetch * 3 / 2);  // faults, page by page
  CHECK(kernel_ns() == there);
  prefetch_ns(host);
  const std::uint64_t fill = fill_ns();
  CHECK(fill > prefetch * 3 / 2);
  CHECK(fill_ns() < fill / 10);
  CHECK(kernel_ns() == there);
  prefetch_ns(other_device);
  CHECK(kernel_ns() > 10 * there);  // by the link between devices
}

TEST_CASE_FIXTURE(TimedManaged, "only the pages that a kernel uses move") {
  const std::uint64_t half = kernel_ns(0, kBytes / 2);
  const std::uint64_t again = kernel_ns(0, kBytes / 2);
  CHECK(again < half / 10);
  const std::uint64_t rest = kernel_ns();
  CHECK(rest > half * 9 / 10);
  CHECK(rest < half * 11 / 10);
}

TEST_CASE_FIXTURE(TimedManaged, "a fill of rows far apart moves only their pages") {
  constexpr std::size_t kRows = 64;
  constexpr std::size_t kWidth = 256;
  const auto fill_rows = [&](std::size_t pitch) {
    return time_ns([&] { OK(CU(cuMemsetD2D8Async)(memory, pitch, 1, kWidth, kRows, stream)); });
  };
  const std::uint64_t all = fill_ns();
  prefetch_ns(host);
  CHECK(fill_rows(kBytes / kRows) < all / 10);
  CHECK(kernel_ns() > all * 9 / 10);  // what lies between them has not moved
  prefetch_ns(host);
  const std::uint64_t near = fill_rows(2 * kWidth);
  CHECK(near < all / 10);
  CHECK(kernel_ns(0, kRows * 2 * kWidth) < near);
}

TEST_CASE_FIXTURE(TimedManaged, "memory of another device moves at the rate of their link") {
  OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
  const std::uint64_t from_host = prefetch_ns(device);
  CUcontext other = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&other, 1));
  const std::uint64_t from_device = prefetch_ns(other_device);
  CHECK(from_device < from_host / 4);
  const std::uint64_t moved = kernel_ns();
  CHECK(moved > from_device * 3 / 2);
  CHECK(moved < from_host / 2);
  advise(CU_MEM_ADVISE_SET_ACCESSED_BY, device);
  prefetch_ns(other_device);
  const std::uint64_t remote = kernel_ns();
  CHECK(remote > from_device / 2);
  CHECK(remote < from_device * 3 / 2);
  OK(CU(cuDevicePrimaryCtxRelease)(1));
}

TEST_CASE_FIXTURE(EagerFixture,
                  "locations are valid NUMA nodes, and the current one has a number") {
  const CUdeviceptr memory = make_managed(4096);
  const auto attribute = [&](CUmem_range_attribute which) {
    int value = -9;
    OK(CU(cuMemRangeGetAttribute)(&value, sizeof value, which, memory, 4096));
    return value;
  };
  const CUmemLocation current{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  OK(CU(cuMemAdvise)(memory, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, current));
  OK(CU(cuMemPrefetchAsync)(memory, 4096, current, 0, nullptr));
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) ==
        CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID) >= 0);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE) ==
        CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID) >= 0);
  for (const int node : {-3, 4095}) {
    const CUmemLocation wrong{CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
    CHECK(CU(cuMemAdvise)(memory, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, wrong) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemPrefetchAsync)(memory, 4096, wrong, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
  OK(CU(cuMemFree)(memory));
}

TEST_CASE("the NUMA node of each simulated device is a location") {
  SimFixture fixture("devices=2,memory=64MiB,numa=0/7");
  const CUdeviceptr memory = make_managed(4096);
  for (int device = 0; device < 2; ++device) {
    int node = -1;
    OK(CU(cuDeviceGetAttribute)(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device));
    CHECK(CU(cuMemPrefetchAsync)(memory, 4096, {CU_MEM_LOCATION_TYPE_HOST_NUMA, node}, 0,
                                 nullptr) == CUDA_SUCCESS);
  }
  CHECK(CU(cuMemPrefetchAsync)(memory, 4096, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 3}, 0, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree)(memory));
}

TEST_CASE("advice about pageable memory is accepted where devices can access it") {
  const std::vector<unsigned char> pageable(4096);
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const auto advise = [&](std::size_t bytes, CUmemLocation location) {
    return CU(cuMemAdvise)(address_of(pageable.data()), bytes, CU_MEM_ADVISE_SET_ACCESSED_BY,
                           location);
  };
  for (const char* access : {"none", "page_faults", "host_page_tables"}) {
    CAPTURE(std::string(access));
    SimFixture fixture(std::string("memory=64MiB,pageable_access=") + access);
    const bool is_accessible = std::string(access) != "none";
    CHECK(advise(4096, device) == (is_accessible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
    CHECK(advise(0, device) == CUDA_ERROR_INVALID_VALUE);
    CHECK(advise(4096, {CU_MEM_LOCATION_TYPE_DEVICE, 7}) ==
          (is_accessible ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE));
  }
}

TEST_CASE_FIXTURE(TimedManaged, "copies use managed memory where it is") {
  CUdeviceptr on_device = 0;
  OK(CU(cuMemAlloc)(&on_device, kBytes));
  const std::uint64_t from_host = copy_ns(on_device, memory);
  CHECK(copy_ns(on_device, memory) == from_host);  // moves nothing
  kernel_ns();
  CHECK(copy_ns(on_device, memory) < from_host / 10);
  prefetch_ns(host);
  CHECK(copy_ns(memory, on_device) > from_host / 2);
  OK(CU(cuMemFree)(on_device));
}

TEST_CASE_FIXTURE(TimedManaged, "advised memory is used where it is, each time at a cost") {
  const std::uint64_t prefetch = prefetch_ns(device);
  for (const CUmem_advise what :
       {CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_ADVISE_SET_PREFERRED_LOCATION}) {
    const bool prefers = what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    prefetch_ns(host);
    advise(what, prefers ? host : device);
    const std::uint64_t first = kernel_ns();
    CHECK(first > prefetch / 2);
    CHECK(first < prefetch * 3 / 2);
    CHECK(kernel_ns() == first);
    advise(prefers ? CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION : CU_MEM_ADVISE_UNSET_ACCESSED_BY,
           prefers ? host : device);
    CHECK(kernel_ns() > prefetch * 3 / 2);
    CHECK(kernel_ns() < prefetch / 10);
  }
}

TEST_CASE_FIXTURE(TimedManaged, "freed managed memory leaves no place behind") {
  const std::uint64_t first = kernel_ns();
  OK(CU(cuMemFree)(memory));
  CUdeviceptr again = 0;
  OK(CU(cuMemAllocManaged)(&again, kBytes, CU_MEM_ATTACH_GLOBAL));
  memory = again;
  CHECK(kernel_ns() == first);
  OK(CU(cuMemFree)(memory));
}

}  // namespace managed_memory_test
