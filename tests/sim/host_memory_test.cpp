// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <sys/mman.h>

#include "sim/sim_fixture.hpp"

namespace host_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

CUresult register_memory(void* start, std::size_t bytes) {
  return CU(cuMemHostRegister)(start, bytes, 0);
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "pinned memory is ordinary memory to the host") {
  unsigned char* pointer = make_pinned(10000);
  std::memset(pointer, 3, 10000);
  CHECK(pointer[9999] == 3);
  CHECK(sim.live().host_allocations == 1);
  CHECK(CU(cuMemFreeHost)(pointer) == CUDA_SUCCESS);
  CHECK(sim.live().host_allocations == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "pinned allocations are checked") {
  void* pointer = nullptr;
  CHECK(CU(cuMemHostAlloc)(nullptr, 512, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostAlloc)(&pointer, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostAlloc)(&pointer, 512, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostAlloc)(&pointer, SIZE_MAX, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemHostAlloc)(&pointer, 512, 7) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "only a live pinned allocation's start can be freed") {
  unsigned char* pointer = make_pinned(8192);
  std::vector<char> own(4096);
  OK(register_memory(own.data(), own.size()));
  CHECK(CU(cuMemFreeHost)(pointer + 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeHost)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeHost)(own.data()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFreeHost)(pointer) == CUDA_SUCCESS);
  CHECK(CU(cuMemFreeHost)(pointer) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("pinned memory has a limit that registration shares") {
  const SimFixture fixture("host_memory=1MiB");
  void* pointer = nullptr;
  CHECK(CU(cuMemHostAlloc)(&pointer, (1 << 20) + 1, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemHostAlloc)(&pointer, 1 << 20, 0) == CUDA_SUCCESS);
  std::vector<char> own(4096);
  CHECK(register_memory(own.data(), own.size()) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuMemFreeHost)(pointer));
  CHECK(register_memory(own.data(), own.size()) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "registered memory cannot be registered again, in part or whole") {
  std::vector<char> own(64 << 10);
  CHECK(register_memory(own.data() + 8192, 8192) == CUDA_SUCCESS);
  CHECK(register_memory(own.data() + 8192, 8192) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(register_memory(own.data() + 12288, 64) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(register_memory(own.data(), 8193) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(register_memory(own.data(), own.size()) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(register_memory(make_pinned(4096), 4096) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(register_memory(own.data(), 8192) == CUDA_SUCCESS);
  CHECK(sim.live().host_registrations == 2);
}

TEST_CASE_FIXTURE(EagerFixture, "only registered memory can be unregistered, by its start") {
  std::vector<char> own(8192);
  CHECK(CU(cuMemHostUnregister)(own.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  OK(register_memory(own.data(), own.size()));
  CHECK(CU(cuMemHostUnregister)(own.data() + 1) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(CU(cuMemHostUnregister)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostUnregister)(make_pinned(64)) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(CU(cuMemHostUnregister)(own.data()) == CUDA_SUCCESS);
  CHECK(CU(cuMemHostUnregister)(own.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE_FIXTURE(EagerFixture, "registration leaves the memory and its bytes to their owner") {
  void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(pages, 5, 8192);
  OK(register_memory(pages, 8192));
  OK(CU(cuMemHostUnregister)(pages));
  CHECK(static_cast<unsigned char*>(pages)[8191] == 5);
  OK(register_memory(pages, 8192));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  CHECK(found_leak(sim, "1 host registration of 8192 B"));
  CHECK(static_cast<unsigned char*>(pages)[8191] == 5);
  munmap(pages, 8192);
}

TEST_CASE_FIXTURE(ManualFixture, "work on registered memory faults if the memory was unmapped") {
  void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(register_memory(pages, 8192));
  OK(CU(cuMemcpyAsync)(make_memory(8192), reinterpret_cast<CUdeviceptr>(pages), 8192, nullptr));
  munmap(pages, 8192);
  CHECK(sim.peek(reinterpret_cast<CUdeviceptr>(pages), 8192).empty());
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(EagerFixture, "only host memory can be registered") {
  std::vector<char> own(4096);
  const CUdeviceptr device = make_memory(4096);
  CHECK(register_memory(nullptr, 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(register_memory(reinterpret_cast<void*>(64), 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(register_memory(own.data(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(register_memory(own.data(), SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(register_memory(reinterpret_cast<void*>(device), 4096) == CUDA_ERROR_INVALID_VALUE);
  void* unmapped = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(unmapped, 8192);
  CHECK(register_memory(unmapped, 4096) == CUDA_ERROR_INVALID_VALUE);
  void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (const int access : {PROT_NONE, PROT_READ}) {
    REQUIRE(mprotect(static_cast<char*>(pages) + 4096, 4096, access) == 0);
    CHECK(register_memory(pages, 4097) == CUDA_ERROR_INVALID_VALUE);
    CHECK(register_memory(pages, 4096) == CUDA_SUCCESS);
    CHECK(CU(cuMemHostUnregister)(pages) == CUDA_SUCCESS);
  }
  munmap(pages, 8192);
  CHECK(CU(cuMemHostRegister)(own.data(), 4096, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostRegister)(own.data(), 4096, CU_MEMHOSTREGISTER_IOMEMORY) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuMemHostRegister)(own.data(), 4096, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a free of pinned memory waits for the work of all contexts") {
  unsigned char* pinned = make_pinned(16);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUdeviceptr device = make_memory(16);
  OK(CU(cuMemcpyAsync)(device, address_of(pinned), 16, make_stream()));
  std::memset(pinned, 6, 16);
  OK(CU(cuCtxSetCurrent)(context));
  OK(CU(cuMemFreeHost)(pinned));
  CHECK(sim.peek(device, 16) == bytes_of(16, 6));
}

}  // namespace host_memory_test
