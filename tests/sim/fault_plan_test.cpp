// SPDX-License-Identifier: Apache-2.0
#include "sim/fault/fault_plan.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "sim/sim_fixture.hpp"

namespace fault_plan_test {

using namespace berth;
using namespace berth::test;

namespace {

CUresult allocate(std::size_t bytes = 1024) {
  CUdeviceptr pointer = 0;
  return CU(cuMemAlloc)(&pointer, bytes);
}

std::string refusal(const std::string& plan) {
  try {
    static_cast<void>(sim::Config::parse("faults=" + plan));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the nth call of a function fails, and does nothing") {
  const SimFixture fixture("memory=1GiB,faults=cuMemAlloc@2=out_of_memory");
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(allocate() == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(fixture.sim.live().allocations == 2);
}

TEST_CASE("the nth call and every later one fail") {
  const SimFixture fixture("memory=1GiB,faults=cuMemAlloc@3+=unknown");
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(allocate() == CUDA_SUCCESS);
  for (int i = 0; i < 10; ++i) CHECK(allocate() == CUDA_ERROR_UNKNOWN);
}

TEST_CASE("every call of a function fails, and no other") {
  const SimFixture fixture("memory=1GiB,faults=cuMemAlloc=not_supported");
  for (int i = 0; i < 3; ++i) CHECK(allocate() == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE("the nth of all calls fails, whichever function it is") {
  // cuDevicePrimaryCtxRetain and cuCtxPushCurrent of the fixture are the first two.
  const SimFixture fixture("memory=1GiB,faults=*@4=invalid_value");
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE("the seed determines random faults") {
  const auto outcomes = [](int seed) {
    const SimFixture fixture("memory=1GiB,faults=cuMemAlloc%25=out_of_memory,seed=" +
                             std::to_string(seed));
    std::string text;
    for (int i = 0; i < 400; ++i) text += allocate() == CUDA_SUCCESS ? '.' : 'x';
    return text;
  };
  const std::string one = outcomes(1);
  const auto failed = std::count(one.begin(), one.end(), 'x');
  CHECK(failed > 60);
  CHECK(failed < 140);
  CHECK(outcomes(1) == one);
  CHECK(outcomes(2) != one);
}

TEST_CASE("a probability of 0 never fails, and one of 100 always does") {
  const SimFixture fixture("memory=1GiB,faults=cuMemAlloc%0=unknown;cuCtxSynchronize%100=unknown");
  for (int i = 0; i < 50; ++i) {
    CHECK(allocate() == CUDA_SUCCESS);
    CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_UNKNOWN);
  }
}

TEST_CASE("the first rule that applies decides") {
  const SimFixture fixture("memory=1GiB,faults=cuMemAlloc@1=unknown;cuMemAlloc=out_of_memory");
  CHECK(allocate() == CUDA_ERROR_UNKNOWN);
  CHECK(allocate() == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("a slow call takes virtual time and has no other effect") {
  const SimFixture fixture("memory=1GiB,progress=timed,faults=cuMemAlloc@2=slow:1000000");
  CHECK(allocate() == CUDA_SUCCESS);
  const std::uint64_t before = fixture.sim.now_ns();
  CHECK(allocate() == CUDA_SUCCESS);
  const std::uint64_t slow = fixture.sim.now_ns() - before;
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(fixture.sim.now_ns() - before == 2 * slow - 1'000'000);
}

TEST_CASE("the memory of a device can shrink without affecting allocations") {
  const SimFixture fixture("memory=1GiB,faults=cuCtxSynchronize@1=memory:64MiB");
  CHECK(allocate(100_MiB) == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(allocate(4_MiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(fixture.sim.live().allocations == 1);
}

TEST_CASE("a lost device fails every call that needs it, and the others go on") {
  const SimFixture fixture("memory=1GiB,devices=2,faults=cuCtxSynchronize@1=lost:0");
  CHECK(allocate() == CUDA_SUCCESS);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_UNKNOWN);
  CHECK(allocate() == CUDA_ERROR_UNKNOWN);
  CUcontext again = nullptr;
  CHECK(CU(cuDevicePrimaryCtxRetain)(&again, 0) == CUDA_ERROR_UNKNOWN);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  CHECK(allocate() == CUDA_SUCCESS);
}

TEST_CASE("calls on a lost device return at once, whatever its host functions do") {
  std::atomic<bool> may_return = false;  // read until the end of the simulator
  const SimFixture fixture("memory=1GiB,faults=cuMemGetInfo@1=lost:0");
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const auto wait = [](void* data) {
    while (!*static_cast<std::atomic<bool>*>(data)) std::this_thread::yield();
  };
  OK(CU(cuLaunchHostFunc)(stream, wait, &may_return));
  OK(CU(cuEventRecord)(event, stream));
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK(CU(cuMemGetInfo)(&free, &total) == CUDA_ERROR_UNKNOWN);
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_UNKNOWN);
  CHECK(CU(cuEventSynchronize)(event) == CUDA_ERROR_UNKNOWN);
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_UNKNOWN);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_UNKNOWN);
  may_return = true;
}

TEST_CASE("the registration limit applies to each registration, and not to their sum") {
  const SimFixture fixture("memory=1GiB,registration_limit=64KiB");
  alignas(4096) static unsigned char memory[128 << 10];
  CHECK(CU(cuMemHostRegister)(memory, 64 << 10, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(CU(cuMemHostRegister)(memory, 60 << 10, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemHostRegister)(memory + (64 << 10), 60 << 10, 0) == CUDA_SUCCESS);
}

TEST_CASE("cuInit fails by a rule with its name alone") {
  const sim::Simulator sim("memory=1GiB,faults=*=unknown;cuInit@2=system_not_ready");
  CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
  CHECK(CU(cuInit)(0) == CUDA_ERROR_SYSTEM_NOT_READY);
  CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
  int count = 0;
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_UNKNOWN);
}

TEST_CASE("a planned failure of the first cuInit leaves the driver uninitialized") {
  const sim::Simulator sim("memory=1GiB,faults=cuInit@1=no_device");
  int count = 0;
  CHECK(CU(cuInit)(0) == CUDA_ERROR_NO_DEVICE);
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_SUCCESS);
}

TEST_CASE("a plan can be written and read back") {
  const std::string text = "cuMemCreate@3=out_of_memory;cuEventRecord%0.1=unknown;*@5000=lost:1";
  const sim::Config config = sim::Config::parse("devices=2,faults=" + text);
  CHECK(config.faults.text() == text);
  CHECK(config.faults.rules().size() == 3);
  CHECK(sim::Config::parse(config.to_text()) == config);
}

TEST_CASE("an invalid rule is refused by name with the accepted forms") {
  struct Case {
    const char* plan;
    const char* named;
    const char* accepted;
  };
  const Case cases[] = {
      {"cuMemCreate", "\"cuMemCreate\"", "FUNCTION@N=error"},
      {"cuNothing=unknown", "\"cuNothing=unknown\"", "simulated function"},
      {"cuMemCreate@0=unknown", "\"cuMemCreate@0=unknown\"", "from 1"},
      {"cuMemCreate@x=unknown", "@x", "from 1"},
      {"cuMemCreate%101=unknown", "%101", "from 0 to 100"},
      {"cuMemCreate%nan=unknown", "%nan", "from 0 to 100"},
      {"cuMemCreate=sad", "=sad", "out_of_memory"},
      {"cuMemCreate=success", "=success", "out_of_memory"},
      {"cuMemCreate=", "\"cuMemCreate=\"", "out_of_memory"},
      {"cuMemCreate=slow:0", "slow:0", "10^12 ns"},
      {"cuMemCreate=lost:64", "lost:64", "0 to 63"},
      {"cuMemCreate=lost:1", "lost:1", "0 to 0"},
      {"cuDriverGetVersion=unknown", "cuDriverGetVersion", "have no faults"},
      {"cuGetErrorName@2=unknown", "cuGetErrorName", "have no faults"},
      {"cuGetErrorString=unknown", "cuGetErrorString", "have no faults"},
      {"cuGetExportTable=unknown", "cuGetExportTable", "have no faults"},
      {"cuMemCreate=memory:big", "memory:big", "1GiB"},
      {"cuMemCreate=sudden:1", "sudden:1", "lost:DEVICE"},
      {"cuMemCreate@1=unknown;;", "\"\"", "FUNCTION@N=error"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.plan);
    const std::string message = refusal(c.plan);
    CAPTURE(message);
    CHECK(message.find(c.named) != std::string::npos);
    CHECK(message.find(c.accepted) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

}  // namespace fault_plan_test
