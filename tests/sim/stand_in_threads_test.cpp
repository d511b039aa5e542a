// SPDX-License-Identifier: Apache-2.0
// Stand-ins for kernels are code of the program: they run and end without the simulator's lock.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sim/sim_fixture.hpp"

namespace stand_in_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

/// After which a test has failed; nothing waits so long where it passes.
constexpr std::chrono::seconds kTooLong{60};

/// Opened by one thread for another.
class Gate {
 public:
  void open() { opened_.set_value(); }
  bool wait() { return future_.wait_for(kTooLong) == std::future_status::ready; }

 private:
  std::promise<void> opened_;
  std::future<void> future_ = opened_.get_future();
};

/// Calls the driver in another thread when it is destroyed, and waits for the call.
class CallsAtItsEnd {
 public:
  CallsAtItsEnd(std::future<void>& call, std::atomic<int>& returned)
      : call_(call), returned_(returned) {}
  ~CallsAtItsEnd() {
    call_ = std::async(std::launch::async, [] {
      int devices = 0;
      CU(cuDeviceGetCount)(&devices);
    });
    returned_ += call_.wait_for(kTooLong) == std::future_status::ready;
  }
  CallsAtItsEnd(const CallsAtItsEnd&) = delete;
  CallsAtItsEnd& operator=(const CallsAtItsEnd&) = delete;

 private:
  std::future<void>& call_;
  std::atomic<int>& returned_;
};

}  // namespace

TEST_CASE("other threads call the driver while a stand-in computes") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(progress);
    SimFixture fixture(std::string("memory=64MiB,progress=") + progress);
    const CUdeviceptr memory = make_memory(1);
    const CUstream stream = make_stream();
    Gate begun;
    Gate called;
    bool was_called = false;
    std::thread other([&] {
      REQUIRE(begun.wait());
      OK(CU(cuCtxSetCurrent)(fixture.context));
      OK(CU(cuMemsetD8Async)(make_memory(1), 1, 1, make_stream()));
      CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
      called.open();
      OK(CU(cuStreamSynchronize)(stream));
      CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 7));
    });
    CHECK(fixture.sim.launch(
        stream, {.uses = {{memory, 1, true}}, .compute = [&](sim::KernelMemory ranges) {
                   begun.open();
                   was_called = called.wait();
                   ranges[0][0] = std::byte{7};
                 }}));
    OK(CU(cuStreamSynchronize)(stream));
    other.join();
    CHECK(was_called);
    CHECK(fixture.sim.take_findings().empty());
  }
}

TEST_CASE_FIXTURE(EagerFixture, "driver calls in a stand-in are not permitted") {
  std::vector<CUresult> results;
  CHECK(sim.launch(nullptr, {.compute = [&](sim::KernelMemory) {
                     CUdeviceptr pointer = 0;
                     results = {CU(cuMemAlloc)(&pointer, 512), CU(cuStreamSynchronize)(nullptr)};
                   }}));
  CHECK(results == std::vector<CUresult>(2, CUDA_ERROR_NOT_PERMITTED));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE("a stand-in is destroyed without the lock of the driver, however its work ends") {
  std::future<void> call;
  std::atomic<int> returned = 0;
  {
    const SimFixture fixture("memory=64MiB,progress=manual");
    const auto launch = [&] {
      return const_cast<sim::Simulator&>(fixture.sim)
          .launch(nullptr, {.compute = [kept = std::make_shared<CallsAtItsEnd>(call, returned)](
                                           sim::KernelMemory) {}});
    };
    REQUIRE(launch());
    OK(CU(cuCtxSynchronize)());
    CHECK(returned == 1);
    REQUIRE(launch());
  }
  CHECK(returned == 2);
}

TEST_CASE("a wait for a stand-in that does not return is reported and continues") {
  SimFixture fixture("memory=64MiB,stall_ms=20");
  const CUstream stream = make_stream();
  Gate reported;
  std::atomic<bool> computes = false;
  std::thread launcher([&] {
    OK(CU(cuCtxSetCurrent)(fixture.context));
    CHECK(fixture.sim.launch(stream, {.name = "slow", .compute = [&](sim::KernelMemory) {
                                        computes = true;
                                        CHECK(reported.wait());
                                      }}));
  });
  std::thread waiter([&] {
    while (!computes) std::this_thread::yield();
    OK(CU(cuCtxSetCurrent)(fixture.context));
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  });
  std::vector<std::string> findings;
  const auto begin = std::chrono::steady_clock::now();
  while (findings.empty() && std::chrono::steady_clock::now() - begin < kTooLong) {
    findings = fixture.sim.take_findings();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  reported.open();
  launcher.join();
  waiter.join();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].find("stall: ") == 0);
  CHECK(findings[0].find("whose stand-in has not returned") != std::string::npos);
}

TEST_CASE_FIXTURE(EagerFixture, "unmapping memory of a running stand-in is a fault") {
  CUmemGenericAllocationHandle block = 0;
  CUdeviceptr memory = 0;
  std::size_t granule = 2U << 20;
  const CUmemAllocationProp properties = properties_on(0);
  const CUmemAccessDesc access = access_for(0);
  OK(CU(cuMemCreate)(&block, granule, &properties, 0));
  OK(CU(cuMemAddressReserve)(&memory, granule, 0, 0, 0));
  OK(CU(cuMemMap)(memory, granule, 0, block, 0));
  OK(CU(cuMemSetAccess)(memory, granule, &access, 1));
  Gate begun;
  Gate unmapped;
  std::thread other([&] {
    REQUIRE(begun.wait());
    OK(CU(cuCtxSetCurrent)(context));
    CHECK(CU(cuMemUnmap)(memory, granule) == CUDA_SUCCESS);
    unmapped.open();
  });
  CHECK(sim.launch(make_stream(), {.uses = {{memory, 16, true}}, .compute = [&](sim::KernelMemory) {
                                     begun.open();
                                     CHECK(unmapped.wait());
                                   }}));
  other.join();
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(found_race(sim));
}

}  // namespace stand_in_threads_test
