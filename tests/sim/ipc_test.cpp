// SPDX-License-Identifier: Apache-2.0
// Memory of cuMemAlloc in several processes, by the handles of IPC.
#include <cstring>
#include <string>

#include "sim/sim_fixture.hpp"
#include "support/peer_process.hpp"

namespace ipc_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4 << 20;
constexpr std::size_t kGranule = 2 << 20;
constexpr const char* kConfig = "memory=64MiB,devices=2";

CUresult enter(CUcontext& context, CUdevice device = 0) {
  if (CU(cuInit)(0) != CUDA_SUCCESS) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = CU(cuDevicePrimaryCtxRetain)(&context, device);
  return result == CUDA_SUCCESS ? CU(cuCtxPushCurrent)(context) : result;
}

CUipcMemHandle handle_of(CUdeviceptr memory) {
  CUipcMemHandle handle{};
  OK(CU(cuIpcGetMemHandle)(&handle, memory));
  return handle;
}

constexpr unsigned kLazily = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

/// Opens two handles of what the other process allocated, reads 7 and 5, writes 8, and closes.
int open_and_answer(int socket) {
  CUipcMemHandle large{};
  CUipcMemHandle small{};
  NEED(receive(socket, large) && receive(socket, small));
  sim::Simulator sim(kConfig);
  CUcontext context = nullptr;
  NEED(enter(context) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CUdeviceptr again = 0;
  CUdeviceptr packed = 0;
  NEED(CU(cuIpcOpenMemHandle)(&pointer, large, kLazily) == CUDA_SUCCESS);
  NEED(CU(cuIpcOpenMemHandle)(&again, large, kLazily) == CUDA_SUCCESS);
  NEED(again == pointer);
  NEED(CU(cuIpcOpenMemHandle)(&packed, small, kLazily) == CUDA_SUCCESS);
  NEED(sim.live().imported_allocations == 2);
  NEED(sim.device_bytes_used(0) == kBytes + kGranule);
  NEED(sim.peek(pointer, kBytes) == bytes_of(kBytes, 7));
  NEED(sim.peek(packed, 700) == bytes_of(700, 5));
  std::size_t bytes = 0;
  NEED(CU(cuMemGetAddressRange)(nullptr, &bytes, packed) == CUDA_SUCCESS && bytes == 700);
  NEED(CU(cuMemFree)(pointer) == CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle own{};
  NEED(CU(cuIpcGetMemHandle)(&own, pointer) == CUDA_ERROR_INVALID_VALUE);
  NEED(CU(cuMemsetD8)(pointer, 8, kBytes) == CUDA_SUCCESS);
  NEED(signal_peer(socket) && await_peer(socket));
  NEED(sim.peek(pointer, 1) == bytes_of(1, 9));
  NEED(CU(cuIpcCloseMemHandle)(pointer) == CUDA_SUCCESS);
  NEED(sim.peek(pointer, 1) == bytes_of(1, 9));
  NEED(CU(cuIpcCloseMemHandle)(pointer) == CUDA_SUCCESS);
  NEED(CU(cuIpcCloseMemHandle)(pointer) == CUDA_ERROR_INVALID_VALUE);
  NEED(CU(cuMemsetD8)(pointer, 8, 1) == CUDA_ERROR_INVALID_VALUE);
  NEED(CU(cuIpcCloseMemHandle)(packed) == CUDA_SUCCESS);
  NEED(sim.live().imported_allocations == 0);
  NEED(sim.device_bytes_used(0) == 0);
  NEED(sim.take_findings().empty());
  NEED(signal_peer(socket));
  return 0;
}

struct IpcFixture : SimFixture {
  IpcFixture() : SimFixture(kConfig) {}
};

}  // namespace

TEST_CASE("another process opens memory of this one, and both see what either writes") {
  PeerProcess peer(open_and_answer);
  const IpcFixture fixture;
  const CUdeviceptr large = make_memory(kBytes);
  const CUdeviceptr first = make_memory(100);
  const CUdeviceptr small = make_memory(700);
  OK(CU(cuMemsetD8)(large, 7, kBytes));
  OK(CU(cuMemsetD8)(small, 5, 700));
  OK(CU(cuMemsetD8)(first, 4, 100));
  CHECK(send(peer.socket(), handle_of(large)));
  CHECK(send(peer.socket(), handle_of(small)));
  REQUIRE(await_peer(peer.socket()));
  CHECK(fixture.sim.peek(large, kBytes) == bytes_of(kBytes, 8));
  CHECK(fixture.sim.peek(first, 100) == bytes_of(100, 4));
  CHECK(fixture.sim.device_bytes_used(0) == kBytes + kGranule);
  OK(CU(cuMemsetD8)(large, 9, 1));
  signal_peer(peer.socket());
  REQUIRE(await_peer(peer.socket()));
  OK(CU(cuMemFree)(large));
  OK(CU(cuMemFree)(small));
  OK(CU(cuMemFree)(first));
  CHECK(fixture.sim.device_bytes_used(0) == 0);
  CHECK(peer.join() == 0);
}

TEST_CASE("memory opened by another process stays in use until closed or the process exits") {
  PeerProcess peer([](int socket) {
    CUipcMemHandle handle{};
    NEED(receive(socket, handle));
    sim::Simulator sim(kConfig);
    CUcontext context = nullptr;
    NEED(enter(context, 1) == CUDA_SUCCESS);  // on the other device, with access to its peer
    CUdeviceptr pointer = 0;
    NEED(CU(cuIpcOpenMemHandle)(&pointer, handle, kLazily) == CUDA_SUCCESS);
    NEED(CU(cuMemsetD8)(pointer, 1, kBytes) == CUDA_SUCCESS);
    NEED(signal_peer(socket) && await_peer(socket));
    _exit(0);
  });
  const IpcFixture fixture;
  const CUdeviceptr memory = make_memory(kBytes);
  CHECK(send(peer.socket(), handle_of(memory)));
  REQUIRE(await_peer(peer.socket()));
  CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 1));
  OK(CU(cuMemFree)(memory));
  CHECK(fixture.sim.device_bytes_used(0) == kBytes);
  signal_peer(peer.socket());
  CHECK(peer.join() == 0);
  CHECK(fixture.sim.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(IpcFixture, "a handle is made of an allocation, and opened elsewhere") {
  const CUdeviceptr memory = make_memory(kBytes);
  CUipcMemHandle handle{};
  CUdeviceptr pooled = 0;
  CUdeviceptr pointer = 0;
  OK(CU(cuMemAllocAsync)(&pooled, 64, nullptr));
  CHECK(CU(cuIpcGetMemHandle)(&handle, pooled) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcGetMemHandle)(&handle, address_of(make_pinned(64))) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcGetMemHandle)(&handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcGetMemHandle)(nullptr, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcOpenMemHandle)(&pointer, handle, kLazily) == CUDA_ERROR_INVALID_HANDLE);
  handle = handle_of(memory);
  CHECK(CU(cuIpcOpenMemHandle)(&pointer, handle, kLazily) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuIpcOpenMemHandle)(&pointer, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcOpenMemHandle)(nullptr, handle, kLazily) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcCloseMemHandle)(memory) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree)(memory));
}

TEST_CASE("a handle of a process that is gone, or of freed memory, opens nothing") {
  PeerProcess peer([](int socket) {
    CUipcMemHandle handle{};
    NEED(receive(socket, handle));
    sim::Simulator sim(kConfig);
    CUcontext context = nullptr;
    NEED(enter(context) == CUDA_SUCCESS);
    CUdeviceptr pointer = 0;
    NEED(CU(cuIpcOpenMemHandle)(&pointer, handle, kLazily) == CUDA_ERROR_INVALID_HANDLE);
    const std::int32_t nobody = 0x7ffffff0;
    std::memcpy(handle.reserved + 8, &nobody, sizeof(nobody));
    NEED(CU(cuIpcOpenMemHandle)(&pointer, handle, kLazily) == CUDA_ERROR_INVALID_HANDLE);
    NEED(sim.live().imported_allocations == 0);
    return 0;
  });
  const IpcFixture fixture;
  const CUdeviceptr memory = make_memory(kBytes);
  const CUipcMemHandle handle = handle_of(memory);
  OK(CU(cuMemFree)(memory));
  make_memory(kBytes);
  CHECK(send(peer.socket(), handle));
  CHECK(peer.join() == 0);
}

TEST_CASE_FIXTURE(IpcFixture, "the recorded uses of memory outlive its first handle") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr memory = make_memory(kBytes);
  OK(CU(cuMemsetD8Async)(memory, 1, kBytes, first));
  handle_of(memory);
  OK(CU(cuMemsetD8Async)(memory, 2, kBytes, first));  // ordered, and through the same mapping
  CHECK(sim.take_findings().empty());
  OK(CU(cuMemsetD8Async)(memory, 3, kBytes, second));
  CHECK(found_race(sim));
  CHECK(sim.peek(memory, 1) == bytes_of(1, 3));
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemFree)(memory));
}

}  // namespace ipc_test
