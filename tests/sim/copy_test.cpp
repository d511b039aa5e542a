// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <sys/mman.h>

#include "sim/sim_fixture.hpp"

namespace copy_test {

using namespace berth;
using namespace berth::test;

namespace {

CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream = nullptr) {
  return CU(cuMemcpyAsync)(to, from, bytes, stream);
}

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "copies to a device, within it and back preserve the bytes") {
  std::vector<unsigned char> out(100000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 7);
  std::vector<unsigned char> back(out.size());
  const CUdeviceptr first = make_memory(out.size());
  const CUdeviceptr second = make_memory(out.size());
  CHECK(copy(first, address_of(out.data()), out.size()) == CUDA_SUCCESS);
  CHECK(copy(second, first, out.size()) == CUDA_SUCCESS);
  CHECK(copy(address_of(back.data()), second, back.size()) == CUDA_SUCCESS);
  CHECK(back == out);
}

TEST_CASE_FIXTURE(
    ManualFixture,
    "a pageable source may be reused at once, and its bytes arrive when the copy runs") {
  std::vector<unsigned char> host = bytes_of(64, 5);
  const CUdeviceptr device = make_memory(64);
  CHECK(copy(device, address_of(host.data()), 64) == CUDA_SUCCESS);
  std::fill(host.begin(), host.end(), static_cast<unsigned char>(6));
  CHECK(sim.peek(device, 64) != bytes_of(64, 5));
  CHECK(sim.run_next(nullptr));
  CHECK(sim.peek(device, 64) == bytes_of(64, 5));
}

TEST_CASE_FIXTURE(ManualFixture, "a copy to pageable memory is over when the call returns") {
  std::vector<unsigned char> host(64);
  const CUstream stream = make_stream();
  const CUdeviceptr device = make_memory(64);
  OK(CU(cuMemsetD8Async)(device, 8, 64, stream));
  CHECK(copy(address_of(host.data()), device, 64, stream) == CUDA_SUCCESS);
  CHECK(host == bytes_of(64, 8));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a pinned source is read when the copy runs") {
  unsigned char* pinned = make_pinned(64);
  const CUdeviceptr device = make_memory(64);
  std::memset(pinned, 1, 64);
  CHECK(copy(device, address_of(pinned), 64) == CUDA_SUCCESS);
  std::memset(pinned, 2, 64);  // too early: the copy has not run
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(device, 64) == bytes_of(64, 2));
}

TEST_CASE_FIXTURE(ManualFixture, "a pinned target is written when the copy runs") {
  unsigned char* pinned = make_pinned(64);
  std::memset(pinned, 1, 64);
  const CUdeviceptr device = make_memory(64);
  OK(CU(cuMemsetD8Async)(device, 3, 64, nullptr));
  CHECK(copy(address_of(pinned), device, 64) == CUDA_SUCCESS);
  CHECK(pinned[0] == 1);
  OK(CU(cuCtxSynchronize)());
  CHECK(pinned[63] == 3);
}

TEST_CASE_FIXTURE(ManualFixture, "registered memory counts as pinned, part of it too") {
  std::vector<unsigned char> own = bytes_of(4096, 1);
  OK(CU(cuMemHostRegister)(own.data(), own.size(), 0));
  const CUdeviceptr device = make_memory(4096);
  CHECK(copy(device, address_of(own.data() + 10), 64) == CUDA_SUCCESS);
  own[10] = 9;
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(device, 1) == bytes_of(1, 9));
}

TEST_CASE_FIXTURE(ManualFixture, "a copy between host memories is over when the call returns") {
  unsigned char* pinned = make_pinned(64);
  std::vector<unsigned char> host = bytes_of(64, 4);
  CHECK(copy(address_of(pinned), address_of(host.data()), 64) == CUDA_SUCCESS);
  CHECK(pinned[63] == 4);
  unsigned char* other = make_pinned(64);
  CHECK(copy(address_of(other), address_of(pinned), 64) == CUDA_SUCCESS);
  CHECK(other[63] == 4);
}

TEST_CASE_FIXTURE(ManualFixture, "a copy within the device runs when its stream makes progress") {
  const CUdeviceptr first = make_memory(64);
  const CUdeviceptr second = make_memory(64);
  const CUstream one = make_stream();
  const CUstream two = make_stream();
  OK(CU(cuMemsetD8Async)(first, 1, 64, one));
  OK(copy(second, first, 64, one));
  OK(CU(cuMemsetD8Async)(first, 2, 64, two));  // unordered with the copy
  CHECK(sim.run_next(one));
  CHECK(sim.run_next(two));
  CHECK(sim.run_next(one));
  CHECK(sim.peek(second, 64) == bytes_of(64, 2));
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "copies and fills of nothing succeed and do nothing") {
  CHECK(copy(0, 0, 0) == CUDA_SUCCESS);
  CHECK(copy(12345, 0, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8Async)(0, 1, 0, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuMemcpyPeerAsync)(0, context, 0, context, 0, nullptr) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(nullptr) == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "device ranges end with their allocation") {
  // Neighbors, so that the bytes behind the end exist.
  const CUdeviceptr first = make_memory(512);
  const CUdeviceptr second = make_memory(512);
  REQUIRE(second == first + 512);
  std::vector<unsigned char> host(1024);
  const CUdeviceptr h = address_of(host.data());
  CHECK(copy(first, h, 512) == CUDA_SUCCESS);
  CHECK(copy(first, h, 513) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(h, first + 1, 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(first, second, 513) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(h, first, SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8Async)(first, 0, 513, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8Async)(first + 511, 0, 1, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuMemsetD8Async)(first + 1, 0, SIZE_MAX, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "pinned ranges end with their allocation") {
  unsigned char* pinned = make_pinned(4096);
  const CUdeviceptr device = make_memory(8192);
  CHECK(copy(device, address_of(pinned), 4096) == CUDA_SUCCESS);
  CHECK(copy(device, address_of(pinned + 1), 4096) == CUDA_ERROR_INVALID_VALUE);
  std::vector<unsigned char> own(12288);
  OK(CU(cuMemHostRegister)(own.data() + 4096, 4096, 0));
  CHECK(copy(device, address_of(own.data()), 4096) == CUDA_SUCCESS);
  CHECK(copy(device, address_of(own.data()), 4097) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture, "invalid addresses are refused") {
  const CUdeviceptr device = make_memory(4096);
  const CUdeviceptr freed = make_memory(4096);
  OK(CU(cuMemFree)(freed));
  void* hole = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 8192);
  for (const CUdeviceptr wrong :
       {CUdeviceptr{0}, CUdeviceptr{8}, freed, freed + 17, address_of(static_cast<char*>(hole)),
        ~CUdeviceptr{0}, CUdeviceptr{1} << 63}) {
    CAPTURE(wrong);
    CHECK(copy(device, wrong, 64) == CUDA_ERROR_INVALID_VALUE);
    CHECK(copy(wrong, device, 64) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemsetD8Async)(wrong, 0, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemcpyPeerAsync)(device, context, wrong, context, 64, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  std::vector<unsigned char> host(64);
  CHECK(CU(cuMemsetD8Async)(address_of(host.data()), 0, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "memory that this process may only read is no target") {
  const CUdeviceptr device = make_memory(4096);
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  const CUdeviceptr host = address_of(static_cast<char*>(page));
  CHECK(copy(host, device, 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(host + 100, device, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(copy(device, host, 4096) == CUDA_SUCCESS);
  OK(CU(cuCtxSynchronize)());
  munmap(page, 4096);
}

TEST_CASE_FIXTURE(ManualFixture, "a fill of pinned memory runs when its stream makes progress") {
  unsigned char* pinned = make_pinned(64);
  std::memset(pinned, 1, 64);
  CHECK(CU(cuMemsetD8Async)(address_of(pinned), 2, 64, nullptr) == CUDA_SUCCESS);
  CHECK(pinned[0] == 1);
  OK(CU(cuCtxSynchronize)());
  CHECK(pinned[0] == 2);
}

TEST_CASE_FIXTURE(ManualFixture, "memory of another device is copied with or without peer access") {
  const CUdeviceptr here = make_memory(64);
  OK(CU(cuMemsetD8Async)(here, 7, 64, nullptr));
  OK(CU(cuCtxSynchronize)());
  const CUcontext peer = retain(1);
  OK(CU(cuCtxSetCurrent)(peer));
  const CUdeviceptr there = make_memory(64);
  CHECK(copy(there, here, 64) == CUDA_SUCCESS);
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.peek(there, 64) == bytes_of(64, 7));
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(there, 8, 64, stream));
  CHECK(CU(cuMemcpyPeerAsync)(here, context, there, peer, 64, stream) == CUDA_SUCCESS);
  CHECK(sim.peek(here, 64) == bytes_of(64, 7));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(here, 64) == bytes_of(64, 8));
}

TEST_CASE_FIXTURE(EagerFixture, "a fill of another device's memory needs peer access") {
  const CUdeviceptr here = make_memory(64);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(CU(cuMemsetD8Async)(here, 1, 64, nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuCtxEnablePeerAccess)(context, 0));
  CHECK(CU(cuMemsetD8Async)(here, 1, 64, nullptr) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "a peer copy names the contexts where the memory is") {
  const CUcontext peer = retain(1);
  const CUdeviceptr here = make_memory(64);
  unsigned char* pinned = make_pinned(64);
  const auto peer_copy = [](CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context) {
    return CU(cuMemcpyPeerAsync)(to, to_context, from, from_context, 64, nullptr);
  };
  CHECK(peer_copy(here, peer, here, context) == CUDA_ERROR_INVALID_VALUE);
  CHECK(peer_copy(here, context, here, peer) == CUDA_ERROR_INVALID_VALUE);
  CHECK(peer_copy(here, context, here, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(peer_copy(here, reinterpret_cast<CUcontext>(9), here, context) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CHECK(peer_copy(here, context, address_of(pinned), context) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a free by another context during a copy is reported, and the copy faults") {
  const CUdeviceptr here = make_memory(64);
  const CUcontext peer = retain(1);
  OK(CU(cuCtxSetCurrent)(peer));
  const CUdeviceptr there = make_memory(64);
  OK(copy(there, here, 64));
  OK(CU(cuCtxSetCurrent)(context));
  OK(CU(cuMemFree)(here));
  CHECK(found_race(sim));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  OK(CU(cuCtxSetCurrent)(peer));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace copy_test
