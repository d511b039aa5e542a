// SPDX-License-Identifier: Apache-2.0
// Events of several processes, by the handles of IPC.
#include <cstring>
#include <string>

#include "sim/sim_fixture.hpp"
#include "support/peer_process.hpp"
#include "support/sanitizers.hpp"

namespace interprocess_event_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4096;

struct Handles {
  CUipcMemHandle memory;
  CUipcEventHandle event;
};

std::string config_of(const char* progress) {
  return std::string("memory=64MiB,devices=2,stall_ms=60000,progress=") + progress;
}

CUevent make_shared_event() {
  CUevent event = nullptr;
  OK(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  return event;
}

struct Peer {
  explicit Peer(const char* progress) : sim(config_of(progress)) {}

  bool open(int socket) {
    Handles handles{};
    CUcontext context = nullptr;
    return receive(socket, handles) && CU(cuInit)(0) == CUDA_SUCCESS &&
           CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS &&
           CU(cuCtxPushCurrent)(context) == CUDA_SUCCESS &&
           CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
           CU(cuIpcOpenEventHandle)(&event, handles.event) == CUDA_SUCCESS &&
           CU(cuIpcOpenMemHandle)(&memory, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
               CUDA_SUCCESS;
  }

  sim::Simulator sim;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
};

/// Waits on the stream for what the other process writes, answers behind it, and records.
[[maybe_unused]] int answer(int socket, const char* progress) {
  Peer peer(progress);
  NEED(peer.open(socket));
  unsigned char value = 0;
  NEED(CU(cuStreamWaitEvent)(peer.stream, peer.event, 0) == CUDA_SUCCESS);
  NEED(CU(cuMemcpyDtoHAsync)(&value, peer.memory, 1, peer.stream) == CUDA_SUCCESS);
  NEED(CU(cuStreamSynchronize)(peer.stream) == CUDA_SUCCESS);
  NEED(value == 7);
  NEED(CU(cuMemsetD8Async)(peer.memory, 8, kBytes, peer.stream) == CUDA_SUCCESS);
  NEED(CU(cuEventRecord)(peer.event, peer.stream) == CUDA_SUCCESS);
  NEED(signal_peer(socket));
  NEED(CU(cuStreamSynchronize)(peer.stream) == CUDA_SUCCESS);
  NEED(await_peer(socket));
  NEED(CU(cuEventDestroy)(peer.event) == CUDA_SUCCESS);
  NEED(CU(cuIpcCloseMemHandle)(peer.memory) == CUDA_SUCCESS);
  NEED(peer.sim.take_findings().empty());
  return 0;
}

[[maybe_unused]] void exchange(const char* progress) {
  PeerProcess peer([&](int socket) { return answer(socket, progress); });
  const SimFixture fixture(config_of(progress));
  const CUdeviceptr memory = make_memory(kBytes);
  const CUevent event = make_shared_event();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  Handles handles{};
  OK(CU(cuIpcGetMemHandle)(&handles.memory, memory));
  OK(CU(cuIpcGetEventHandle)(&handles.event, event));
  OK(CU(cuMemsetD8Async)(memory, 7, kBytes, first));
  OK(CU(cuEventRecord)(event, first));
  CHECK(send(peer.socket(), handles));
  // Otherwise this process never learns here that its own work is done.
  if (std::string(progress) != "eager") OK(CU(cuEventSynchronize)(event));
  REQUIRE(await_peer(peer.socket()));
  // The other process has recorded: the event stands for its work, which came after ours.
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  unsigned char value = 0;
  OK(CU(cuMemcpyDtoHAsync)(&value, memory, 1, second));
  OK(CU(cuStreamSynchronize)(second));
  CHECK(value == 8);
  OK(CU(cuEventSynchronize)(event));
  OK(CU(cuEventQuery)(event));
  OK(CU(cuEventRecord)(event, second));
  OK(CU(cuEventSynchronize)(event));
  CHECK(send(peer.socket(), char{1}));
  CHECK(peer.join() == 0);
  OK(CU(cuEventDestroy)(event));
  OK(CU(cuMemFree)(memory));
}

struct Fixture : SimFixture {
  Fixture() : SimFixture(config_of("eager")) {}
};

}  // namespace

// The thread sanitizer supports no threads in a child: waits of streams for another process start
// one.
#ifndef BERTH_UNDER_TSAN
TEST_CASE("two processes wait for each other's work") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(progress);
    exchange(progress);
  }
}

TEST_CASE("pending work of another process blocks waits for its event") {
  PeerProcess peer([](int socket) -> int {
    Peer self("manual");
    NEED(self.open(socket));
    NEED(CU(cuMemsetD8Async)(self.memory, 5, kBytes, self.stream) == CUDA_SUCCESS);
    NEED(CU(cuEventRecord)(self.event, self.stream) == CUDA_SUCCESS);
    NEED(signal_peer(socket) && await_peer(socket));
    NEED(CU(cuStreamSynchronize)(self.stream) == CUDA_SUCCESS);
    NEED(signal_peer(socket) && await_peer(socket));
    NEED(CU(cuIpcCloseMemHandle)(self.memory) == CUDA_SUCCESS);
    NEED(CU(cuEventDestroy)(self.event) == CUDA_SUCCESS);
    return 0;
  });
  const Fixture fixture;
  const CUdeviceptr memory = make_memory(kBytes);
  const CUevent event = make_shared_event();
  const CUstream stream = make_stream();
  Handles handles{};
  OK(CU(cuIpcGetMemHandle)(&handles.memory, memory));
  OK(CU(cuIpcGetEventHandle)(&handles.event, event));
  CHECK(send(peer.socket(), handles));
  REQUIRE(await_peer(peer.socket()));
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  OK(CU(cuStreamWaitEvent)(stream, event, 0));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  CHECK(signal_peer(peer.socket()));
  REQUIRE(await_peer(peer.socket()));
  OK(CU(cuEventQuery)(event));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 5));
  CHECK(signal_peer(peer.socket()));
  CHECK(peer.join() == 0);
  OK(CU(cuEventDestroy)(event));
  OK(CU(cuMemFree)(memory));
}

TEST_CASE("an event behind a fault of its process does not block others") {
  PeerProcess peer([](int socket) -> int {
    Peer self("eager");
    NEED(self.open(socket));
    CUcontext context = nullptr;
    CUdeviceptr gone = 0;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CUstream other = nullptr;
    NEED(CU(cuCtxGetCurrent)(&context) == CUDA_SUCCESS);
    NEED(CU(cuMemAlloc)(&gone, kBytes) == CUDA_SUCCESS);
    NEED(CU(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
    const CUDA_MEMSET_NODE_PARAMS fill{
        .dst = gone, .pitch = 0, .value = 5, .elementSize = 1, .width = kBytes, .height = 1};
    NEED(CU(cuGraphAddMemsetNode)(&node, graph, nullptr, 0, &fill, context) == CUDA_SUCCESS);
    NEED(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0) == CUDA_SUCCESS);
    NEED(CU(cuMemFree)(gone) == CUDA_SUCCESS);
    NEED(CU(cuStreamWaitValue32)(self.stream, self.memory, 1, CU_STREAM_WAIT_VALUE_EQ) ==
         CUDA_SUCCESS);
    NEED(CU(cuGraphLaunch)(exec, self.stream) == CUDA_SUCCESS);
    NEED(CU(cuEventRecord)(self.event, self.stream) == CUDA_SUCCESS);
    NEED(signal_peer(socket) && await_peer(socket));
    NEED(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CU(cuStreamWriteValue32)(other, self.memory, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    NEED(CU(cuStreamSynchronize)(self.stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    NEED(await_peer(socket));
    self.sim.take_findings();
    return 0;
  });
  const Fixture fixture;
  const CUdeviceptr memory = make_memory(kBytes);
  const CUevent event = make_shared_event();
  const CUstream stream = make_stream();
  Handles handles{};
  OK(CU(cuMemsetD8)(memory, 0, kBytes));
  OK(CU(cuIpcGetMemHandle)(&handles.memory, memory));
  OK(CU(cuIpcGetEventHandle)(&handles.event, event));
  CHECK(send(peer.socket(), handles));
  REQUIRE(await_peer(peer.socket()));
  OK(CU(cuStreamWaitEvent)(stream, event, 0));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  CHECK(signal_peer(peer.socket()));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(signal_peer(peer.socket()));
  CHECK(peer.join() == 0);
  OK(CU(cuEventDestroy)(event));
  OK(CU(cuMemFree)(memory));
}

#endif

TEST_CASE_FIXTURE(Fixture, "a handle is made of an interprocess event, and opened elsewhere") {
  const CUevent event = make_shared_event();
  const CUevent plain = make_event();
  CUipcEventHandle handle{};
  CUevent opened = nullptr;
  CHECK(CU(cuIpcGetEventHandle)(&handle, plain) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcGetEventHandle)(&handle, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuIpcGetEventHandle)(nullptr, event) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuIpcOpenEventHandle)(&opened, handle) == CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuIpcGetEventHandle)(&handle, event));
  CHECK(CU(cuIpcOpenEventHandle)(&opened, handle) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(CU(cuIpcOpenEventHandle)(nullptr, handle) == CUDA_ERROR_INVALID_VALUE);
  const std::int32_t nobody = 0x7ffffff0;
  std::memcpy(handle.reserved + 8, &nobody, sizeof(nobody));
  CHECK(CU(cuIpcOpenEventHandle)(&opened, handle) == CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuEventDestroy)(event));
  OK(CU(cuEventDestroy)(plain));
}

}  // namespace interprocess_event_test
