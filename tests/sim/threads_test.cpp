// SPDX-License-Identifier: Apache-2.0
// Many threads at once: nothing is lost, nothing deadlocks. Meant for the thread sanitizer too.
#include <atomic>
#include <string>
#include <thread>

#include "sim/sim_fixture.hpp"

namespace threads_test {

using namespace berth;
using namespace berth::test;

namespace {

/// What one thread does: its own stream and memory, events, host functions, waits of every kind.
void work(CUcontext context, unsigned char mark, std::atomic<int>& failures) {
  const auto expect = [&](CUresult result) { failures += result != CUDA_SUCCESS; };
  expect(CU(cuCtxPushCurrent)(context));
  CUstream stream = nullptr;
  CUevent event = nullptr;
  void* pinned = nullptr;
  std::atomic<int> calls{0};
  expect(CU(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0));
  expect(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  expect(CU(cuMemHostAlloc)(&pinned, 256, 0));
  for (int i = 0; i < 100; ++i) {
    CUdeviceptr memory = 0;
    expect(CU(cuMemAlloc)(&memory, 256));
    expect(CU(cuMemsetD8Async)(memory, mark, 256, stream));
    expect(CU(cuMemcpyAsync)(address_of(static_cast<char*>(pinned)), memory, 256, stream));
    expect(CU(cuEventRecord)(event, stream));
    if (i % 10 == 0)
      expect(CU(cuLaunchHostFunc)(
          stream, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &calls));
    expect(CU(cuStreamWaitEvent)(nullptr, event, 0));
    switch (i % 4) {
      case 0:
        expect(CU(cuEventSynchronize)(event));
        break;
      case 1:
        expect(CU(cuStreamSynchronize)(stream));
        break;
      case 2:
        expect(CU(cuCtxSynchronize)());
        break;
      default:
        while (CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    }
    failures += static_cast<unsigned char*>(pinned)[255] != mark;
    expect(CU(cuMemFree)(memory));
  }
  expect(CU(cuMemFreeHost)(pinned));
  expect(CU(cuEventDestroy)(event));
  expect(CU(cuStreamDestroy)(stream));
  failures += calls != 10;
}

}  // namespace

TEST_CASE("threads that share a context do not disturb each other") {
  for (const char* progress : {"eager", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(std::string("devices=2,memory=64MiB,progress=") + progress);
    const CUcontext contexts[] = {fixture.context, retain(1)};
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 6; ++i)
      threads.emplace_back(
          [&, i] { work(contexts[i % 2], static_cast<unsigned char>(i + 1), failures); });
    for (std::thread& thread : threads) thread.join();
    CHECK(failures == 0);
    OK(CU(cuCtxSynchronize)());
    CHECK(fixture.sim.live() == sim::Live{.contexts = 2});
    CHECK(fixture.sim.device_bytes_used(0) == 0);
  }
}

TEST_CASE("in manual mode a wait in one thread runs what another thread submitted") {
  ManualFixture fixture;
  const CUdeviceptr memory = make_memory(1);
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(fixture.context));
    OK(CU(cuMemsetD8Async)(memory, 4, 1, stream));
    OK(CU(cuEventRecord)(event, stream));
  }).join();
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  OK(CU(cuEventSynchronize)(event));
  CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 4));
}

TEST_CASE("the per-thread stream of a thread that ended goes with it, after its work") {
  ManualFixture fixture;
  const CUdeviceptr memory = make_memory(1);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(fixture.context));
    OK(CU(cuMemsetD8Async)(memory, 4, 1, CU_STREAM_PER_THREAD));
  }).join();
  OK(CU(cuCtxSynchronize)());
  CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 4));
}

}  // namespace threads_test
