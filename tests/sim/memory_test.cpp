// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/sim_fixture.hpp"

namespace memory_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2 << 20;

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(CU(cuMemGetInfo)(&free, &total));
  CHECK(free <= total);
  return free;
}

CUresult allocate(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  return CU(cuMemAlloc)(&pointer, bytes);
}

/// Whether a child process that reads `address` is killed by a fault.
bool faults(CUdeviceptr address) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    static_cast<void>(*reinterpret_cast<const volatile char*>(address));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "allocations are distinct and aligned to 512 bytes") {
  std::set<CUdeviceptr> starts;
  for (std::size_t bytes = 1; bytes < kGranule * 3; bytes = bytes * 3 + 1) {
    const CUdeviceptr pointer = make_memory(bytes);
    CHECK(pointer % 512 == 0);
    CHECK(starts.insert(pointer).second);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "large allocations take whole granules") {
  const std::size_t before = free_bytes();
  const CUdeviceptr pointer = make_memory(kGranule + 1);
  CHECK(before - free_bytes() == 2 * kGranule);
  CHECK(sim.device_bytes_used(0) == 2 * kGranule);
  CHECK(CU(cuMemFree)(pointer) == CUDA_SUCCESS);
  CHECK(free_bytes() == before);
}

TEST_CASE_FIXTURE(EagerFixture, "small allocations share a granule until the last is freed") {
  const CUdeviceptr first = make_memory(1);
  CHECK(sim.device_bytes_used(0) == kGranule);
  std::vector<CUdeviceptr> rest;
  for (std::size_t i = 1; i < kGranule / 512; ++i) rest.push_back(make_memory(512));
  CHECK(sim.device_bytes_used(0) == kGranule);
  const CUdeviceptr one_more = make_memory(1);
  CHECK(sim.device_bytes_used(0) == 2 * kGranule);
  OK(CU(cuMemFree)(one_more));
  for (const CUdeviceptr pointer : rest) OK(CU(cuMemFree)(pointer));
  CHECK(sim.device_bytes_used(0) == kGranule);
  OK(CU(cuMemFree)(first));
  CHECK(sim.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "small allocations share no byte") {
  std::vector<CUdeviceptr> pointers;
  for (unsigned char i = 0; i < 100; ++i) {
    pointers.push_back(make_memory(700));
    OK(CU(cuMemsetD8Async)(pointers.back(), i, 700, nullptr));
  }
  for (unsigned char i = 0; i < 100; ++i) CHECK(sim.peek(pointers[i], 700) == bytes_of(700, i));
}

TEST_CASE_FIXTURE(EagerFixture, "a granule that was full takes small allocations again") {
  std::vector<CUdeviceptr> pointers;
  for (std::size_t i = 0; i < kGranule / 512; ++i) pointers.push_back(make_memory(512));
  OK(CU(cuMemFree)(pointers[7]));
  CHECK(make_memory(512) == pointers[7]);
  CHECK(sim.device_bytes_used(0) == kGranule);
}

TEST_CASE_FIXTURE(EagerFixture, "a device is out of memory exactly when it is full") {
  CHECK(allocate((1ULL << 30) + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(allocate(SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(allocate(SIZE_MAX - kGranule) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr all = make_memory(1ULL << 30);
  CHECK(free_bytes() == 0);
  CHECK(allocate(1) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemFree)(all));
  CHECK(allocate(1) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "scattered physical memory serves one contiguous allocation") {
  std::vector<CUdeviceptr> pointers;
  for (std::size_t i = 0; i < (1ULL << 30) / kGranule; ++i)
    pointers.push_back(make_memory(kGranule));
  for (std::size_t i = 0; i < pointers.size(); i += 2) OK(CU(cuMemFree)(pointers[i]));
  const std::size_t half = 1ULL << 29;
  const CUdeviceptr scattered = make_memory(half);
  OK(CU(cuMemsetD8Async)(scattered, 1, half, nullptr));
  OK(CU(cuMemsetD8Async)(scattered + kGranule - 1, 2, 2, nullptr));
  CHECK(sim.peek(scattered + kGranule - 2, 4) == std::vector<unsigned char>{1, 2, 2, 1});
  CHECK(allocate(1) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE_FIXTURE(EagerFixture, "a limit makes a device smaller, down to what is in use") {
  make_memory(8 * kGranule);
  sim.set_device_memory_limit(0, 10 * kGranule);
  CHECK(free_bytes() == 2 * kGranule);
  CHECK(allocate(3 * kGranule) == CUDA_ERROR_OUT_OF_MEMORY);
  sim.set_device_memory_limit(0, 0);
  CHECK(free_bytes() == 0);
  sim.set_device_memory_limit(0, 1ULL << 40);
  CHECK(free_bytes() == (1ULL << 30) - 8 * kGranule);
}

TEST_CASE_FIXTURE(EagerFixture, "nothing but null and a live allocation's start can be freed") {
  const CUdeviceptr pointer = make_memory(4096);
  int local = 0;
  CHECK(CU(cuMemFree)(pointer + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(pointer + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(0) == CUDA_SUCCESS);
  CHECK(CU(cuMemFree)(address_of(&local)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(address_of(make_pinned(4096))) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(~CUdeviceptr{0}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(pointer) == CUDA_SUCCESS);
  CHECK(CU(cuMemFree)(pointer) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "an allocation of 0 bytes or with a null output is rejected") {
  CUdeviceptr pointer = 77;
  std::size_t size = 0;
  CHECK(CU(cuMemAlloc)(&pointer, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(pointer == 77);
  CHECK(CU(cuMemAlloc)(nullptr, 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemGetInfo)(nullptr, &size) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemGetInfo)(&size, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "fresh memory is not zero") {
  CHECK(sim.peek(make_memory(4096), 1) != bytes_of(1, 0));
  CHECK(sim.peek(make_memory(8 << 20), 1) != bytes_of(1, 0));
}

TEST_CASE_FIXTURE(ManualFixture, "freeing waits for the work of the context") {
  const CUdeviceptr kept = make_memory(16);
  const CUdeviceptr freed = make_memory(16);
  OK(CU(cuMemsetD8Async)(kept, 9, 16, make_stream()));
  CHECK(sim.peek(kept, 16) != bytes_of(16, 9));
  OK(CU(cuMemFree)(freed));
  CHECK(sim.peek(kept, 16) == bytes_of(16, 9));
}

TEST_CASE_FIXTURE(ManualFixture, "a free that waits for work on its memory is not reported") {
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(4096);
  unsigned char* const pinned = make_pinned(4096);
  alignas(4096) static unsigned char registered[4096];
  OK(CU(cuMemHostRegister)(registered, sizeof registered, 0));
  for (const CUdeviceptr memory : {device, address_of(pinned), address_of(&registered[0])})
    OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
  OK(CU(cuMemHostUnregister)(registered));
  OK(CU(cuMemsetD8Async)(device, 1, 64, stream));
  OK(CU(cuMemsetD8Async)(address_of(pinned), 1, 64, stream));
  OK(CU(cuMemFreeHost)(pinned));
  OK(CU(cuMemsetD8Async)(device, 1, 64, stream));
  OK(CU(cuMemFree)(device));
  CHECK(sim.pending_operations(stream) == 0);
  CHECK_FALSE(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "a free does not wait for work of another context") {
  const CUcontext own = context;
  const CUdeviceptr memory = make_memory(4096);
  const CUcontext other = retain(1);
  OK(CU(cuCtxSetCurrent)(other));
  OK(CU(cuCtxEnablePeerAccess)(own, 0));
  OK(CU(cuMemsetD8Async)(memory, 1, 64, make_stream()));
  OK(CU(cuCtxSetCurrent)(own));
  OK(CU(cuMemFree)(memory));
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(EagerFixture, "host code that touches device memory faults") {
  const CUdeviceptr pointer = make_memory(4096);
  int local = 0;
  CHECK(faults(pointer));
  CHECK_FALSE(faults(address_of(&local)));
  OK(CU(cuMemFree)(pointer));
  CHECK(faults(pointer));
}

TEST_CASE("eight devices of 80 GiB cost nothing until written") {
  const SimFixture fixture("devices=8,memory=80GiB");
  for (int device = 0; device < 8; ++device) {
    OK(CU(cuCtxSetCurrent)(retain(device)));
    const CUdeviceptr pointer = make_memory(79ULL << 30);
    const CUdeviceptr last = pointer + (79ULL << 30) - 1;
    OK(CU(cuMemsetD8Async)(last, 5, 1, nullptr));
    CHECK(fixture.sim.peek(last, 1) == bytes_of(1, 5));
    CHECK(CU(cuMemsetD8Async)(last, 5, 2, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("freed memory is returned to the system and reads as zeros when reused") {
  for (const char* config : {"memory=64MiB", "memory=64MiB,poison=off"}) {
    const SimFixture fixture(config);
    const CUdeviceptr all = make_memory(64 << 20);
    OK(CU(cuMemsetD8Async)(all, 1, 64 << 20, nullptr));
    OK(CU(cuMemFree)(all));
    const CUdeviceptr again = make_memory(64 << 20);
    CHECK(fixture.sim.peek(again + (32 << 20), 1) == bytes_of(1, 0));
  }
}

}  // namespace memory_test
