// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"

namespace host_function_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Runs `body` in `stream`; it must live until then.
void launch(CUstream stream, std::function<void()>& body) {
  OK(CU(cuLaunchHostFunc)(
      stream, [](void* data) { (*static_cast<std::function<void()>*>(data))(); }, &body));
}

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "a host function is an operation of its stream") {
  std::atomic<int> calls{0};
  std::function<void()> body = [&] { ++calls; };
  launch(nullptr, body);
  CHECK(sim.pending_operations(nullptr) == 1);
  CHECK(calls == 0);
  CHECK(sim.run_next(nullptr));
  CHECK(calls == 1);
  CHECK(CU(cuLaunchHostFunc)(nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(EagerFixture,
                  "a host function runs on a thread of the driver's, without a context") {
  std::thread::id thread;
  std::function<void()> body = [&] { thread = std::this_thread::get_id(); };
  launch(nullptr, body);
  OK(CU(cuCtxSynchronize)());
  CHECK(thread != std::thread::id());
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE_FIXTURE(EagerFixture, "driver calls inside a host function are not permitted") {
  std::vector<CUresult> results;
  std::function<void()> body = [&] {
    CUcontext current = nullptr;
    CUdeviceptr pointer = 0;
    results = {CU(cuInit)(0), CU(cuCtxGetCurrent)(&current), CU(cuMemAlloc)(&pointer, 512),
               CU(cuStreamSynchronize)(nullptr), CU(cuEventQuery)(nullptr)};
  };
  launch(nullptr, body);
  OK(CU(cuCtxSynchronize)());
  CHECK(results == std::vector<CUresult>(5, CUDA_ERROR_NOT_PERMITTED));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE("a caller may hold a lock that its host function takes") {
  for (const char* progress : {"eager", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(std::string("memory=64MiB,progress=") + progress);
    std::mutex lock;
    std::atomic<bool> called{false};
    std::function<void()> body = [&] {
      const std::lock_guard guard(lock);
      called = true;
    };
    {
      const std::lock_guard guard(lock);
      launch(nullptr, body);
      CUdeviceptr pointer = make_memory(512);
      CHECK(pointer != 0);
      CHECK_FALSE(called);
    }
    OK(CU(cuCtxSynchronize)());
    CHECK(called);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "other threads continue while a host function runs") {
  std::atomic<bool> release{false};
  std::function<void()> body = [&] {
    while (!release) std::this_thread::yield();
  };
  const CUstream stream = make_stream();
  const CUdeviceptr behind = make_memory(1);
  const CUdeviceptr beside = make_memory(1);
  launch(stream, body);
  OK(CU(cuMemsetD8Async)(behind, 1, 1, stream));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    const CUstream other = make_stream();
    OK(CU(cuMemsetD8Async)(beside, 2, 1, other));
    CHECK(CU(cuStreamSynchronize)(other) == CUDA_SUCCESS);
  }).join();
  CHECK(sim.peek(beside, 1) == bytes_of(1, 2));
  CHECK(sim.peek(behind, 1) != bytes_of(1, 1));
  release = true;
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(behind, 1) == bytes_of(1, 1));
}

TEST_CASE_FIXTURE(EagerFixture, "work behind a host function runs once the function has returned") {
  std::atomic<bool> release{false};
  std::function<void()> body = [&] {
    while (!release) std::this_thread::yield();
  };
  const CUstream stream = make_stream();
  unsigned char* pinned = make_pinned(1);
  launch(stream, body);
  OK(CU(cuMemsetD8Async)(address_of(pinned), 9, 1, stream));
  release = true;
  while (CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  CHECK(*pinned == 9);
}

TEST_CASE_FIXTURE(ManualFixture, "a host function is not called in a context that has faulted") {
  const CUdeviceptr there = [] {
    OK(CU(cuCtxSetCurrent)(retain(1)));
    return make_memory(64);
  }();
  const CUcontext peer = retain(1);
  OK(CU(cuCtxSetCurrent)(context));
  OK(CU(cuMemcpyAsync)(make_memory(64), there, 64, nullptr));
  bool called = false;
  std::function<void()> body = [&] { called = true; };
  launch(nullptr, body);
  OK(CU(cuCtxSetCurrent)(peer));
  OK(CU(cuMemFree)(there));
  CHECK(found_race(sim));
  OK(CU(cuCtxSetCurrent)(context));
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_FALSE(called);
}

TEST_CASE("destroying a simulator waits for the running host function and drops later ones") {
  std::atomic<int> calls{0};
  std::atomic<bool> started{false};
  std::atomic<bool> leaving{false};
  std::function<void()> body = [&] {
    started = true;
    while (!leaving) std::this_thread::yield();  // so that no other one runs before the end begins
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    ++calls;
  };
  {
    const SimFixture fixture("memory=64MiB");
    const CUstream stream = make_stream();
    launch(stream, body);
    launch(stream, body);
    while (!started) std::this_thread::yield();
    leaving = true;
  }
  CHECK(started);
  CHECK(calls == 1);
}

namespace {

constexpr const char* kModes[] = {"progress=eager", "progress=manual", "progress=random",
                                  "progress=timed"};

/// A host function that returns once `open` is set.
struct Closed {
  void hold(CUstream stream) { launch(stream, body); }
  std::atomic<bool> open{false};
  std::function<void()> body = [this] {
    while (!open) std::this_thread::yield();
  };
};

/// Sets `closed` free when the simulator has found something; what it has found.
std::vector<std::string> open_when_found(sim::Simulator& sim, Closed& closed) {
  std::vector<std::string> findings;
  while (findings.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    findings = sim.take_findings();
  }
  closed.open = true;
  return findings;
}

}  // namespace

TEST_CASE("a stream blocked behind a host function only by its channel is reported and continues") {
  for (const char* mode : kModes) {
    CAPTURE(std::string(mode));
    SimFixture fixture(fmt::format("memory=64MiB,connections=1,stall_ms=300,{}", mode));
    const CUstream busy = make_stream();
    const CUstream other = make_stream();
    const CUdeviceptr memory = make_memory(1);
    Flag<cuuint32_t> flag;
    flag.set(1);
    Closed closed;
    closed.hold(busy);
    flag.hold(busy);
    OK(CU(cuMemsetD8Async)(memory, 1, 1, other));
    CHECK(CU(cuStreamSynchronize)(other) == CUDA_SUCCESS);
    CHECK_FALSE(closed.open);
    const std::vector<std::string> findings = fixture.sim.take_findings();
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].starts_with("shared channel: cuMemsetD8Async "));
    CHECK(findings[0].find("behind cuLaunchHostFunc") != std::string::npos);
    CHECK(findings[0].find("whose host function has not returned") != std::string::npos);
    closed.open = true;
    CHECK(CU(cuStreamSynchronize)(busy) == CUDA_SUCCESS);
  }
}

TEST_CASE("a polling loop is reported as blocked by a host function in its channel") {
  SimFixture fixture("memory=64MiB,connections=1,stall_ms=300");
  const CUstream busy = make_stream();
  const CUstream other = make_stream();
  Flag<cuuint32_t> flag;
  flag.set(1);
  Closed closed;
  closed.hold(busy);
  flag.hold(busy);
  OK(CU(cuMemsetD8Async)(make_memory(1), 1, 1, other));
  while (CU(cuStreamQuery)(other) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  const std::vector<std::string> findings = fixture.sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("shared channel: "));
  closed.open = true;
  CHECK(CU(cuStreamSynchronize)(busy) == CUDA_SUCCESS);
}

TEST_CASE("a call that waits for a host function reports it once, and keeps waiting") {
  for (const char* mode : kModes) {
    CAPTURE(std::string(mode));
    SimFixture fixture(fmt::format("memory=64MiB,stall_ms=300,{}", mode));
    const CUstream stream = make_stream();
    Closed closed;
    closed.hold(stream);
    std::vector<std::string> findings;
    std::thread opener([&] {
      std::vector<std::string> first = open_when_found(fixture.sim, closed);
      findings = std::move(first);
    });
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    CHECK(closed.open);
    opener.join();
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].starts_with("stall: "));
    CHECK(findings[0].find("cuLaunchHostFunc") != std::string::npos);
    CHECK(fixture.sim.take_findings().empty());
  }
}

TEST_CASE("a host function is reported once, however many calls wait for it") {
  SimFixture fixture("memory=64MiB,stall_ms=20");
  const CUstream stream = make_stream();
  Closed closed;
  closed.hold(stream);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i)
    waiters.emplace_back([&] {
      OK(CU(cuCtxSetCurrent)(fixture.context));
      CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::vector<std::string> findings = open_when_found(fixture.sim, closed);
  for (std::thread& waiter : waiters) waiter.join();
  CHECK(findings.size() == 1);
  CHECK(fixture.sim.take_findings().empty());
}

TEST_CASE("the finding names the host function that others wait for") {
  SimFixture fixture("memory=64MiB,stall_ms=300");
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  Closed closed;
  Closed open;
  open.open = true;
  closed.hold(first);
  open.hold(second);
  std::vector<std::string> findings;
  std::thread opener([&] { findings = open_when_found(fixture.sim, closed); });
  CHECK(CU(cuStreamSynchronize)(second) == CUDA_SUCCESS);
  opener.join();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].find("whose host function waits for that of cuLaunchHostFunc") !=
        std::string::npos);
  CHECK(CU(cuStreamSynchronize)(first) == CUDA_SUCCESS);
}

TEST_CASE("a slow host function, or one that waits for pending work, is not reported") {
  for (const char* mode : {"progress=eager", "progress=manual", "progress=random"}) {
    CAPTURE(std::string(mode));
    SimFixture fixture(fmt::format("memory=64MiB,stall_ms=200,{}", mode));
    const CUstream stream = make_stream();
    const CUstream other = make_stream();
    Flag<cuuint32_t> flag;
    std::function<void()> body = [&] {
      while (flag.get() == 0) std::this_thread::yield();
    };
    launch(stream, body);
    OK(CU(cuStreamWriteValue32)(other, flag.address(), 1, 0));
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    CHECK(fixture.sim.take_findings().empty());
    std::function<void()> slow = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(110));
    };
    launch(stream, slow);
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    CHECK(fixture.sim.take_findings().empty());
  }
}

}  // namespace host_function_test
