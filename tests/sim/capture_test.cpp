// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "sim/graph_fixture.hpp"

namespace capture_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto kThreadLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

/// Every call that changes what exists, or looks at what is done, behind the back of a capture.
std::vector<std::function<CUresult()>> unsafe_calls() {
  const CUdeviceptr memory = make_memory(64);
  unsigned char* const pinned = make_pinned(64);
  static std::vector<unsigned char> registered(64);
  static std::vector<unsigned char> unregistered(64);
  OK(CU(cuMemHostRegister)(registered.data(), 64, 0));
  const CUevent event = make_event();
  const CUstream stream = make_stream();
  return {
      [] {
        CUdeviceptr pointer = 0;
        return CU(cuMemAlloc)(&pointer, 64);
      },
      [=] { return CU(cuMemFree)(memory); },
      [] {
        void* pointer = nullptr;
        return CU(cuMemHostAlloc)(&pointer, 64, 0);
      },
      [=] { return CU(cuMemFreeHost)(pinned); },
      [] { return CU(cuMemHostRegister)(unregistered.data(), 64, 0); },
      [] { return CU(cuMemHostUnregister)(registered.data()); },
      [=] { return CU(cuEventQuery)(event); },
      [=] { return CU(cuEventSynchronize)(event); },
      [=] { return CU(cuStreamQuery)(stream); },
      [=] { return CU(cuStreamSynchronize)(stream); },
  };
}

void in_thread(CUcontext context, const std::function<void()>& body) {
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    body();
  }).join();
}

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "captured work is not pending and does not advance virtual time") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(64);
  std::vector<unsigned char> host(64);
  begin_capture(stream);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
  OK(CU(cuMemcpyAsync)(address_of(host.data()), memory, 64, stream));
  OK(CU(cuMemcpyPeerAsync)(memory, context, memory + 32, context, 32, stream));
  OK(CU(cuLaunchHostFunc)(
      stream, [](void*) {}, nullptr));
  CHECK(sim.pending_operations(stream) == 0);
  CHECK(sim.operations_run() == 0);
  CHECK(nodes_of(end_capture(stream)).size() == 4);
}

TEST_CASE_FIXTURE(ManualFixture, "a captured copy of nothing is no node") {
  const CUdeviceptr memory = make_memory(64);
  const CUgraph graph = capture([&](CUstream stream) {
    OK(CU(cuMemcpyAsync)(memory, memory, 0, stream));
    OK(CU(cuMemsetD8Async)(memory, 1, 0, stream));
  });
  CHECK(nodes_of(graph).empty());
}

TEST_CASE_FIXTURE(ManualFixture, "a capture begins on any stream but the legacy one, once") {
  CHECK(CU(cuStreamBeginCapture)(nullptr, kGlobal) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(CU(cuStreamBeginCapture)(CU_STREAM_LEGACY, kGlobal) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const CUstream stream = make_stream();
  for (const int mode : {-1, 3, 1000})
    CHECK(CU(cuStreamBeginCapture)(stream, static_cast<CUstreamCaptureMode>(mode)) ==
          CUDA_ERROR_INVALID_VALUE);
  for (const CUstream good : {stream, CU_STREAM_PER_THREAD}) {
    begin_capture(good);
    CHECK(CU(cuStreamBeginCapture)(good, kRelaxed) == CUDA_ERROR_ILLEGAL_STATE);
    CHECK(status_of(good) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    end_capture(good);
  }
}

TEST_CASE_FIXTURE(ManualFixture, "a refused end leaves the capture going") {
  const CUstream stream = make_stream();
  CUgraph graph = nullptr;
  CHECK(CU(cuStreamEndCapture)(stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(CU(cuStreamEndCapture)(nullptr, &graph) == CUDA_ERROR_ILLEGAL_STATE);
  begin_capture(stream);
  CHECK(CU(cuStreamEndCapture)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  end_capture(stream);
}

TEST_CASE_FIXTURE(ManualFixture, "captures refuse invalid streams and null results") {
  const CUstream gone = make_stream();
  OK(CU(cuStreamDestroy)(gone));
  const CUstream stream = make_stream();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  for (const CUstream bad : {gone, reinterpret_cast<CUstream>(&status)}) {
    CHECK(CU(cuStreamBeginCapture)(bad, kGlobal) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamEndCapture)(bad, &graph) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamIsCapturing)(bad, &status) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamGetCaptureInfo)(bad, &status, nullptr, nullptr, nullptr, nullptr, nullptr) ==
          CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(CU(cuStreamIsCapturing)(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamGetCaptureInfo)(stream, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamGetCaptureInfo)(stream, &status, nullptr, nullptr, nullptr, &edges, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "the state of a capture names the nodes that come next") {
  const CUstream stream = make_stream();
  const CUstream fork = make_stream();
  const CUdeviceptr memory = make_memory(64);
  begin_capture(stream);
  OK(CU(cuMemsetD8Async)(memory, 1, 32, stream));
  order(stream, fork);
  OK(CU(cuMemsetD8Async)(memory, 1, 32, fork));
  OK(CU(cuMemsetD8Async)(memory + 32, 1, 32, stream));
  order(fork, stream);
  order(fork, stream);  // again: no node twice
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  OK(CU(cuStreamGetCaptureInfo)(stream, &status, nullptr, &graph, &dependencies, &edges, &count));
  REQUIRE(count == 2);
  const std::vector<CUgraphNode> nodes = nodes_of(graph);
  REQUIRE(nodes.size() == 3);
  CHECK(dependencies[0] == nodes[2]);
  CHECK(dependencies[1] == nodes[1]);
  CHECK(edges[1].type == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a stream that is not captured has only a status") {
  const CUstream stream = make_stream();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuuint64_t id = 77;
  OK(CU(cuStreamGetCaptureInfo)(stream, &status, &id, nullptr, nullptr, nullptr, nullptr));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  begin_capture(stream);
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  OK(CU(cuStreamGetCaptureInfo)(stream, &status, &id, nullptr, nullptr, nullptr, nullptr));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(id == 77);
}

TEST_CASE_FIXTURE(ManualFixture, "a fork without work need not be joined") {
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  begin_capture(origin);
  OK(CU(cuMemsetD8Async)(make_memory(1), 1, 1, origin));
  order(origin, fork);
  CHECK(nodes_of(end_capture(origin)).size() == 1);
  begin_capture(fork);
  end_capture(fork);
}

TEST_CASE_FIXTURE(ManualFixture, "work on a fork after its join counts as unjoined") {
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  const CUdeviceptr memory = make_memory(1);
  begin_capture(origin);
  order(origin, fork);
  OK(CU(cuMemsetD8Async)(memory, 1, 1, fork));
  order(fork, origin);
  OK(CU(cuMemsetD8Async)(memory, 2, 1, fork));
  CHECK(fail_capture(origin) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  CHECK(sim.live().graphs == 0);
  CHECK(sim.live().captures == 0);
}

TEST_CASE_FIXTURE(ManualFixture, "a fork joins by way of another fork") {
  const CUstream origin = make_stream();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr memory = make_memory(1);
  begin_capture(origin);
  order(origin, first);
  order(first, second);
  OK(CU(cuMemsetD8Async)(memory, 1, 1, second));
  order(second, first);
  OK(CU(cuMemsetD8Async)(memory, 2, 1, first));
  order(first, origin);
  CHECK(nodes_of(end_capture(origin)).size() == 2);
}

TEST_CASE_FIXTURE(ManualFixture, "a merge invalidates both captures") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  begin_capture(first);
  begin_capture(second);
  OK(CU(cuEventRecord)(event, first));
  CHECK(CU(cuStreamWaitEvent)(second, event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CHECK(fail_capture(first) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(fail_capture(second) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture, "no stream joins an invalid or ended capture") {
  const CUstream stream = make_stream();
  const CUstream other = make_stream();
  const CUevent event = make_event();
  begin_capture(stream);
  OK(CU(cuEventRecord)(event, stream));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(CU(cuStreamWaitEvent)(other, event, 0) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin_capture(other);
  CHECK(CU(cuStreamWaitEvent)(other, event, 0) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(fail_capture(other) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_FIXTURE(ManualFixture, "a captured stream waits for no event that was never recorded") {
  const CUstream stream = make_stream();
  begin_capture(stream);
  CHECK(CU(cuStreamWaitEvent)(stream, make_event(), 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture, "elapsed time of captured events is refused") {
  const CUstream stream = make_stream();
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  OK(CU(cuEventRecord)(start, stream));
  OK(CU(cuStreamSynchronize)(stream));
  begin_capture(stream);
  OK(CU(cuEventRecord)(end, stream));
  float milliseconds = 0;
  CHECK(CU(cuEventElapsedTime)(&milliseconds, start, end) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(CU(cuEventRecord)(end, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(CU(cuEventElapsedTime)(&milliseconds, start, end) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "every use of the legacy stream invalidates a blocking stream's capture") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = make_memory(64);
  const CUevent event = make_event();
  CUgraphExec exec = make_executable(capture([](CUstream) {}));
  const std::vector<std::function<CUresult()>> uses = {
      [&] { return CU(cuMemsetD8Async)(memory, 1, 64, nullptr); },
      [&] { return CU(cuMemcpyAsync)(memory, memory + 32, 32, nullptr); },
      [&] {
        return CU(cuLaunchHostFunc)(
            nullptr, [](void*) {}, nullptr);
      },
      [&] { return CU(cuEventRecord)(event, nullptr); },
      [&] { return CU(cuStreamWaitEvent)(nullptr, event, 0); },
      [&] { return CU(cuStreamQuery)(nullptr); },
      [&] { return CU(cuStreamSynchronize)(nullptr); },
      [&] { return CU(cuGraphLaunch)(exec, nullptr); },
  };
  for (std::size_t use = 0; use < uses.size(); ++use) {
    CAPTURE(use);
    for (const CUstream stream : {blocking, CU_STREAM_PER_THREAD}) {
      begin_capture(stream);
      CHECK(uses[use]() == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
      CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      CHECK(sim.pending_operations(nullptr) == 0);
    }
  }
}

TEST_CASE_FIXTURE(ManualFixture, "a capture query of the legacy stream invalidates no capture") {
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  begin_capture(stream);
  CHECK(CU(cuStreamIsCapturing)(nullptr, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(CU(cuStreamGetCaptureInfo)(nullptr, &status, nullptr, nullptr, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  end_capture(stream);
}

TEST_CASE_FIXTURE(ManualFixture, "the legacy stream takes no part in a capture") {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  begin_capture(stream);
  OK(CU(cuEventRecord)(event, stream));
  CHECK(CU(cuStreamWaitEvent)(nullptr, event, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture, "use of another context's legacy stream invalidates no capture") {
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  begin_capture(stream);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  OK(CU(cuCtxSetCurrent)(context));
  end_capture(stream);
}

TEST_CASE_FIXTURE(EagerFixture, "unsafe calls fail in a capture's thread, and change nothing") {
  const auto calls = unsafe_calls();
  const CUstream stream = make_stream();
  for (const auto mode : {kGlobal, kThreadLocal}) {
    for (std::size_t call = 0; call < calls.size(); ++call) {
      CAPTURE(mode);
      CAPTURE(call);
      begin_capture(stream, mode);
      const sim::Live before = sim.live();
      CHECK(calls[call]() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      CHECK(sim.live() == before);
      CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
  }
}

TEST_CASE_FIXTURE(EagerFixture, "unsafe calls in another thread fail where both are global") {
  const auto calls = unsafe_calls();
  const CUstream stream = make_stream();
  for (std::size_t call = 0; call < calls.size(); ++call) {
    CAPTURE(call);
    begin_capture(stream, kGlobal);
    in_thread(context, [&] { CHECK(calls[call]() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); });
    CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  begin_capture(stream, kThreadLocal);
  in_thread(context, [&] {
    for (const auto& call : calls) CHECK(call() == CUDA_SUCCESS);
  });
  end_capture(stream);
}

TEST_CASE_FIXTURE(EagerFixture, "unsafe calls are safe beside a relaxed capture") {
  const auto calls = unsafe_calls();
  const CUstream stream = make_stream();
  begin_capture(stream, kRelaxed);
  for (const auto& call : calls) CHECK(call() == CUDA_SUCCESS);
  end_capture(stream);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "an unsafe call invalidates the captures that forbid it, and no other") {
  const CUstream strict = make_stream();
  const CUstream relaxed = make_stream();
  CUdeviceptr pointer = 0;
  begin_capture(strict, kGlobal);
  begin_capture(relaxed, kRelaxed);
  CHECK(CU(cuMemAlloc)(&pointer, 64) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(fail_capture(strict) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  end_capture(relaxed);
}

TEST_CASE_FIXTURE(EagerFixture, "a call with invalid arguments does not invalidate a capture") {
  const CUstream stream = make_stream();
  CUdeviceptr pointer = 0;
  begin_capture(stream, kGlobal);
  CHECK(CU(cuMemAlloc)(&pointer, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemFree)(16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemsetD8Async)(16, 1, 64, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuLaunchHostFunc)(stream, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuEventQuery)(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  end_capture(stream);
}

TEST_CASE_FIXTURE(EagerFixture, "memory is reserved, made and mapped during a capture") {
  const CUstream stream = make_stream();
  const CUmemAllocationProp properties = properties_on(0);
  const CUmemAccessDesc access = access_for(0);
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  begin_capture(stream, kGlobal);
  CHECK(CU(cuMemAddressReserve)(&range, 2 << 20, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemCreate)(&handle, 2 << 20, &properties, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemMap)(range, 2 << 20, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemSetAccess)(range, 2 << 20, &access, 1) == CUDA_SUCCESS);
  OK(CU(cuMemsetD8Async)(range, 1, 64, stream));
  end_capture(stream);
}

TEST_CASE_FIXTURE(ManualFixture, "ending a capture on the wrong stream or thread invalidates it") {
  const CUstream stream = make_stream();
  const CUstream fork = make_stream();
  begin_capture(stream);
  order(stream, fork);
  CHECK(fail_capture(fork) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin_capture(stream, kThreadLocal);
  in_thread(context,
            [&] { CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD); });
  CHECK(fail_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "a captured stream that is destroyed ends or invalidates its capture") {
  const CUstream origin = make_stream();
  const CUstream fork = make_stream();
  const CUstream other = make_stream();
  begin_capture(origin);
  order(origin, fork);
  order(origin, other);
  OK(CU(cuStreamDestroy)(fork));
  CHECK(status_of(origin) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(sim.live().captures == 1);
  OK(CU(cuStreamDestroy)(origin));
  CHECK(sim.live().captures == 0);
  CHECK(sim.live().graphs == 0);
  CHECK(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_FIXTURE(ManualFixture, "captures of a destroyed context are dropped") {
  const CUcontext second = retain(1);
  const CUstream here = make_stream();
  OK(CU(cuCtxPushCurrent)(second));
  const CUstream there = make_stream();
  begin_capture(there);
  order(there, here);
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuDevicePrimaryCtxRelease)(1));
  CHECK(found_leak(sim, "1 stream"));
  CHECK(sim.live().captures == 0);
  CHECK(status_of(here) == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_FIXTURE(ManualFixture, "the capture of a per-thread stream ends with its thread") {
  in_thread(context, [] { begin_capture(CU_STREAM_PER_THREAD, kGlobal); });
  CHECK(sim.live().captures == 0);
  make_memory(64);
}

TEST_CASE_FIXTURE(ManualFixture, "the capture mode is exchanged and checked per thread") {
  CUstreamCaptureMode mode = kRelaxed;
  CHECK(CU(cuThreadExchangeStreamCaptureMode)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  CHECK(mode == kGlobal);
  mode = static_cast<CUstreamCaptureMode>(3);
  CHECK(CU(cuThreadExchangeStreamCaptureMode)(&mode) == CUDA_ERROR_INVALID_VALUE);
  mode = kThreadLocal;
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  CHECK(mode == kRelaxed);
  in_thread(context, [] {
    CUstreamCaptureMode own = kRelaxed;
    OK(CU(cuThreadExchangeStreamCaptureMode)(&own));
    CHECK(own == kGlobal);
  });
}

TEST_CASE("a thread's mode does not outlive the simulator") {
  const auto exchange = [](CUstreamCaptureMode mode) {
    OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
    return mode;
  };
  {
    const SimFixture first("memory=64MiB");
    exchange(kRelaxed);
  }
  const SimFixture second("memory=64MiB");
  CHECK(exchange(kRelaxed) == kGlobal);
}

TEST_CASE("the capture info of CUDA 12.3 is resolved from CUDA 12.3 on") {
  {
    const sim::Simulator older("driver_version=12020");
    void* address = nullptr;
    OK(CU(cuGetProcAddress_v2)("cuStreamGetCaptureInfo", &address, 12020, 0, nullptr));
    CHECK(address != reinterpret_cast<void*>(&CU(cuStreamGetCaptureInfo)));
    CHECK(sim::resolve("cuStreamGetCaptureInfo_v3") == nullptr);
  }
  const sim::Simulator sim("driver_version=12030");
  CHECK(sim::resolve("cuStreamGetCaptureInfo") != nullptr);
  CHECK(sim::resolve("cuStreamGetCaptureInfo_v3") == sim::resolve("cuStreamGetCaptureInfo"));
  CHECK(sim::resolve("cuStreamGetCaptureInfo_v2") == nullptr);
}

}  // namespace capture_test
