// SPDX-License-Identifier: Apache-2.0
// Launches that block, and drivers without stream memory operations.
#include <atomic>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/graph_fixture.hpp"
#include "sim/sim_fixture.hpp"
#include "support/environment.hpp"

namespace launch_blocking_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Blocking : SimFixture {
  Blocking() : SimFixture("memory=64MiB,progress=manual,launch_blocking=on,stall_ms=20") {}
};

}  // namespace

TEST_CASE_FIXTURE(Blocking, "a call that submits work returns when the work is done") {
  const CUstream stream = make_stream();
  CUdeviceptr memory = make_memory(64);
  CUdeviceptr pinned = address_of(make_pinned(64));
  const CUgraphExec exec = make_executable(
      capture([&](CUstream captured) { OK(CU(cuMemsetD8Async)(memory, 7, 64, captured)); }));
  const auto all_is_done = [&] { return sim.pending_operations(stream) == 0; };
  OK(CU(cuMemsetD8Async)(memory, 5, 64, stream));
  CHECK(sim.peek(memory, 64) == bytes_of(64, 5));
  OK(CU(cuMemcpyAsync)(pinned, memory, 64, stream));
  CHECK(sim.peek(pinned, 64) == bytes_of(64, 5));
  OK(CU(cuGraphLaunch)(exec, stream));
  CHECK(sim.peek(memory, 64) == bytes_of(64, 7));
  CHECK(sim.launch(stream, 1000));
  CHECK(all_is_done());
  std::atomic<int> called = 0;
  const auto count = [](void* data) { ++*static_cast<std::atomic<int>*>(data); };
  OK(CU(cuLaunchHostFunc)(stream, count, &called));
  CHECK(called == 1);
  OK(CU(cuStreamAddCallback)(
      stream, [](CUstream, CUresult, void* data) { ++*static_cast<std::atomic<int>*>(data); },
      &called, 0));
  CHECK(called == 2);
  OK(CU(cuStreamWriteValue32)(stream, pinned, 3, 0));
  CHECK(sim.peek(pinned, 1) == bytes_of(1, 3));
  std::size_t bytes = 64;
  std::size_t first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  OK(CU(cuMemcpyBatchAsync)(&pinned, &memory, &bytes, 1, &attributes, &first, 1, stream));
  CHECK(sim.peek(pinned, 64) == bytes_of(64, 7));
  CUdeviceptr of_pool = 0;
  OK(CU(cuMemAllocAsync)(&of_pool, 64, stream));
  CHECK(all_is_done());
  OK(CU(cuMemFreeAsync)(of_pool, stream));
  CHECK(all_is_done());
  OK(CU(cuMemsetD8)(memory, 1, 64));
  CHECK(sim.peek(memory, 64) == bytes_of(64, 1));
}

TEST_CASE_FIXTURE(Blocking,
                  "with blocking launches a stream wait returns at once, and later work blocks") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  Flag<cuuint32_t> flag;
  flag.hold(stream);
  CHECK(sim.pending_operations(stream) == 1);
  CHECK(CU(cuMemsetD8Async)(memory, 1, 1, stream) == CUDA_ERROR_LAUNCH_TIMEOUT);
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("stall: "));
}

TEST_CASE("a wait for a value blocks its launch if all launches block") {
  SimFixture fixture("memory=64MiB,progress=manual,launch_blocking=all,stall_ms=20");
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
  CHECK(fixture.sim.pending_operations(stream) == 0);
  Flag<cuuint32_t> flag;
  CHECK(CU(cuStreamWaitValue32)(stream, flag.address(), 1, CU_STREAM_WAIT_VALUE_GEQ) ==
        CUDA_ERROR_LAUNCH_TIMEOUT);
  const std::vector<std::string> findings = fixture.sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("stall: "));
}

TEST_CASE("waits and records of events block their launches only if all launches block") {
  for (const bool all : {false, true}) {
    SimFixture fixture(fmt::format("memory=64MiB,launch_blocking={}", all ? "all" : "on"));
    const CUstream held = make_stream();
    const CUstream other = make_stream();
    const CUevent before = make_event();
    const CUevent after = make_event();
    Flag<cuuint32_t> flag;
    // Each call is made while another thread's wait for the value holds its stream.
    const auto returns_before_release = [&](const auto& call) {
      flag.set(0);
      std::thread waiter([&] {
        OK(CU(cuCtxSetCurrent)(fixture.context));
        flag.hold(held);
      });
      while (fixture.sim.pending_operations(held) == 0) std::this_thread::yield();
      std::atomic<bool> released = false;
      const std::uint64_t calls =
          fixture.sim.calls("cuEventRecord") + fixture.sim.calls("cuStreamWaitEvent");
      std::thread releaser([&] {
        while (fixture.sim.calls("cuEventRecord") + fixture.sim.calls("cuStreamWaitEvent") == calls)
          std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        released = true;
        flag.set(1);
      });
      OK(call());
      const bool returned_early = !released;
      releaser.join();
      waiter.join();
      OK(CU(cuStreamSynchronize)(held));
      return returned_early;
    };
    const bool early_record =
        returns_before_release([&] { return CU(cuEventRecord)(before, held); });
    const bool early_wait = returns_before_release([&] {
      std::thread([&] {
        OK(CU(cuCtxSetCurrent)(fixture.context));
        OK(CU(cuEventRecord)(after, held));
      }).join();
      return CU(cuStreamWaitEvent)(other, after, 0);
    });
    CHECK(early_record == !all);
    CHECK(early_wait == !all);
  }
}

TEST_CASE("launches block if CUDA_LAUNCH_BLOCKING or the option is set") {
  struct Case {
    std::optional<std::string> variable;
    const char* option;
    bool blocks;
  };
  const Case cases[] = {{std::nullopt, "", false},
                        {"1", "", true},
                        {"0", "", false},
                        {"", "", false},
                        {"1", ",launch_blocking=off", false},
                        {"1", ",launch_blocking=auto", true},
                        {"0", ",launch_blocking=on", true}};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.option));
    const ScopedEnvironment environment("CUDA_LAUNCH_BLOCKING", c.variable);
    SimFixture fixture(fmt::format("memory=64MiB,progress=manual{}", c.option));
    const CUstream stream = make_stream();
    OK(CU(cuMemsetD8Async)(make_memory(1), 1, 1, stream));
    CHECK((fixture.sim.pending_operations(stream) == 0) == c.blocks);
  }
}

TEST_CASE("devices without stream memory operations stand beside others, and so do instances") {
  SimFixture fixture("devices=3,memory=8GiB,memory_operations=on/off/off,mig=2:1");
  constexpr bool supported[] = {true, false, false};
  for (int device = 0; device < 3; ++device) {  // the last one is the instance
    CAPTURE(device);
    int value = -1;
    OK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device));
    CHECK((value == 1) == supported[device]);
    CUcontext context = nullptr;
    OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
    OK(CU(cuCtxSetCurrent)(context));
    const CUstream stream = make_stream();
    const CUdeviceptr word = address_of(make_pinned(8));
    CHECK(CU(cuStreamWriteValue32)(stream, word, 1, 0) ==
          (supported[device] ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
    OK(CU(cuStreamSynchronize)(stream));
  }
  fixture.sim.take_findings();  // what make_stream() and make_pinned() leave
}

TEST_CASE("a driver without stream memory operations reports and rejects them") {
  SimFixture fixture("memory=64MiB,memory_operations=off");
  const CUstream stream = make_stream();
  const CUdeviceptr word = address_of(make_pinned(8));
  CUstreamBatchMemOpParams operation{};
  operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, word, {.value = 1}, 0, 0};
  CHECK(CU(cuStreamWaitValue32)(stream, word, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuStreamWaitValue64)(stream, word, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuStreamWriteValue32)(stream, word, 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuStreamWriteValue64)(stream, word, 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuStreamBatchMemOp)(stream, 1, &operation, 0) == CUDA_ERROR_NOT_SUPPORTED);
  for (const CUdevice_attribute attribute : {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                                             CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
                                             CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
                                             CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1}) {
    CAPTURE(int(attribute));
    int value = -1;
    OK(CU(cuDeviceGetAttribute)(&value, attribute, 0));
    CHECK(value == 0);
  }
}

}  // namespace launch_blocking_test
