// SPDX-License-Identifier: Apache-2.0
// Queues of operations; and queues of bounded length: which calls wait for room, what makes room,
// and calls for which only the caller could make room.
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/graph_fixture.hpp"
#include "sim/random.hpp"
#include "sim/sim_fixture.hpp"
#include "sim/work/operation_queue.hpp"

namespace queue_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string config(const std::string& options) {
  return "memory=64MiB,stall_ms=20," + options;
}

bool found_full_queue(sim::Simulator& sim) {
  const std::vector<std::string> findings = sim.take_findings();
  return findings.size() == 1 && findings[0].starts_with("full queue: ");
}

}  // namespace

TEST_CASE("operations leave a queue of any length in their order, and do not move meanwhile") {
  sim::OperationQueue queue;
  std::deque<const sim::Operation*> places;  // of those that are queued
  std::uint64_t entered = 0;
  std::uint64_t left = 0;
  const auto check = [&] {
    REQUIRE(queue.size() == places.size());
    REQUIRE(queue.empty() == places.empty());
    std::uint64_t at = left;
    queue.for_each([&](const sim::Operation& operation) {
      REQUIRE(&operation == places[at - left]);
      REQUIRE(operation.number == ++at);
    });
    REQUIRE(at == entered);
  };
  sim::Random random(1);
  for (const std::uint64_t length_max : {1, 15, 16, 17, 100, 3, 1}) {
    for (int step = 0; step < 500; ++step) {
      const bool pushes = places.empty() || (places.size() < length_max && random.below(2) == 0);
      if (pushes) {
        queue.push({.sequence = 1, .number = ++entered, .waits_for = {}, .work = sim::WaitWork{}});
        queue.for_each([&](const sim::Operation& operation) {
          if (operation.number == entered) places.push_back(&operation);
        });
      } else {
        queue.pop();
        places.pop_front();
        ++left;
      }
      check();
    }
  }
}

TEST_CASE("in every mode a full queue makes room by running its work") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(config(fmt::format("queue=3,progress={}", progress)));
    const CUstream stream = make_stream();
    const CUdeviceptr memory = make_memory(100);
    for (unsigned char i = 0; i < 100; ++i) {
      OK(CU(cuMemsetD8Async)(memory + i, i, 1, stream));
      CHECK(fixture.sim.pending_operations(stream) <= 3);
    }
    OK(CU(cuStreamSynchronize)(stream));
    const std::vector<unsigned char> content = fixture.sim.peek(memory, 100);
    for (unsigned char i = 0; i < 100; ++i) CHECK(content[i] == i);
  }
}

TEST_CASE("in manual mode the oldest operation and its dependencies run to make room") {
  SimFixture fixture(config("queue=2,progress=manual"));
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr memory = make_memory(8);
  OK(CU(cuMemsetD8Async)(memory, 1, 1, first));
  order(first, second);
  OK(CU(cuMemsetD8Async)(memory + 1, 1, 1, second));
  CHECK(fixture.sim.operations_run() == 0);
  OK(CU(cuMemsetD8Async)(memory + 2, 1, 1, second));  // the fill, the record and the wait run
  CHECK(fixture.sim.operations_run() == 3);
  CHECK(fixture.sim.pending_operations(second) == 2);
  CHECK(fixture.sim.pending_operations(first) == 0);
}

TEST_CASE("each call that submits work to a stream waits for room") {
  SimFixture fixture(config("queue=1,progress=manual"));
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  CUdeviceptr memory = make_memory(64);
  CUdeviceptr pinned = address_of(make_pinned(64));
  CUdeviceptr pool_memory = 0;
  std::size_t bytes = 64;
  std::size_t first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.srcDevice = pinned;
  rows.dstDevice = memory;
  rows.srcPitch = rows.dstPitch = 8;
  rows.WidthInBytes = rows.Height = 8;
  const CUgraphExec exec = make_executable(
      capture([&](CUstream captured) { OK(CU(cuMemsetD8Async)(memory, 1, 64, captured)); }));
  const CUstream other = make_stream();
  const CUevent pending = make_event();
  struct Case {
    std::string name;
    std::function<CUresult()> call;
  };
  const Case cases[] = {
      {"cuMemsetD8Async", [&] { return CU(cuMemsetD8Async)(memory, 1, 64, stream); }},
      {"cuMemcpyAsync", [&] { return CU(cuMemcpyAsync)(memory, pinned, 64, stream); }},
      {"cuMemcpyPeerAsync",
       [&] {
         return CU(cuMemcpyPeerAsync)(memory, fixture.context, memory + 32, fixture.context, 8,
                                      stream);
       }},
      {"cuMemcpy2DAsync", [&] { return CU(cuMemcpy2DAsync)(&rows, stream); }},
      {"cuMemcpyBatchAsync",
       [&] {
         return CU(cuMemcpyBatchAsync)(&memory, &pinned, &bytes, 1, &attributes, &first, 1, stream);
       }},
      {"cuEventRecord", [&] { return CU(cuEventRecord)(event, stream); }},
      {"cuStreamWaitEvent", [&] { return CU(cuStreamWaitEvent)(stream, pending, 0); }},
      {"cuLaunchHostFunc",
       [&] {
         return CU(cuLaunchHostFunc)(
             stream, [](void*) {}, nullptr);
       }},
      {"cuStreamAddCallback",
       [&] {
         return CU(cuStreamAddCallback)(
             stream, [](CUstream, CUresult, void*) {}, nullptr, 0);
       }},
      {"cuStreamWriteValue32", [&] { return CU(cuStreamWriteValue32)(stream, pinned, 1, 0); }},
      {"cuStreamWaitValue32",
       [&] { return CU(cuStreamWaitValue32)(stream, pinned, 0, CU_STREAM_WAIT_VALUE_GEQ); }},
      {"cuGraphLaunch", [&] { return CU(cuGraphLaunch)(exec, stream); }},
      {"cuMemAllocAsync", [&] { return CU(cuMemAllocAsync)(&pool_memory, 64, stream); }},
      {"cuMemFreeAsync", [&] { return CU(cuMemFreeAsync)(pool_memory, stream); }},
      {"a kernel",
       [&] { return fixture.sim.launch(stream, 100) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    OK(CU(cuMemsetD8Async)(memory, 2, 64, other));
    OK(CU(cuEventRecord)(pending, other));
    OK(CU(cuMemsetD8Async)(memory, 3, 64, stream));
    CHECK(fixture.sim.pending_operations(stream) == 1);
    CHECK(c.call() == CUDA_SUCCESS);
    CHECK(fixture.sim.pending_operations(stream) == 1);
    OK(CU(cuCtxSynchronize)());
    CHECK(found_race(fixture.sim));  // `other` and `stream` fill the same bytes
  }
}

TEST_CASE("a capture records more operations than the queue holds") {
  SimFixture fixture(config("queue=1,progress=manual"));
  const CUdeviceptr memory = make_memory(1);
  const CUstream stream = make_stream();
  OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
  begin_capture(stream);
  for (int i = 0; i < 5; ++i) OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
  CHECK(nodes_of(end_capture(stream)).size() == 5);
  CHECK(fixture.sim.pending_operations(stream) == 1);
}

TEST_CASE("a call that waits for queue space continues after another thread has made progress") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(fmt::format("memory=64MiB,queue=2,progress={}", progress));
    const CUstream stream = make_stream();
    const CUdeviceptr memory = make_memory(4);
    Flag<cuuint32_t> flag;
    flag.hold(stream);
    OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
    std::thread helper([&] {
      while (fixture.sim.calls("cuMemsetD8Async") < 2) std::this_thread::yield();
      flag.set(1);
    });
    CHECK(CU(cuMemsetD8Async)(memory + 1, 1, 1, stream) == CUDA_SUCCESS);
    CHECK(flag.get() == 1);
    helper.join();
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(fixture.sim.peek(memory, 2) == bytes_of(2, 1));
  }
}

TEST_CASE("a call fails and does nothing if only the caller could make room") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(config(fmt::format("queue=2,progress={}", progress)));
    const CUstream stream = make_stream();
    const CUdeviceptr memory = make_memory(4);
    OK(CU(cuMemsetD8)(memory, 0, 4));
    OK(CU(cuCtxSynchronize)());
    Flag<cuuint32_t> flag;
    flag.hold(stream);
    OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
    CHECK(CU(cuMemsetD8Async)(memory + 1, 1, 1, stream) == CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK(found_full_queue(fixture.sim));
    flag.set(1);
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    CHECK(fixture.sim.peek(memory, 4) == std::vector<unsigned char>{1, 0, 0, 0});
    CHECK(CU(cuMemsetD8Async)(memory + 1, 1, 1, stream) == CUDA_SUCCESS);
    OK(CU(cuCtxSynchronize)());
  }
}

// Source: NVIDIA developer forum, topic 220629.
TEST_CASE("a host function that waits for the thread that fills its queue is reported") {
  for (const char* progress : {"eager", "manual", "random"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(config(fmt::format("queue=4,progress={}", progress)));
    const CUstream stream = make_stream();
    const CUevent event = make_event();
    std::atomic<bool> go = false;
    OK(CU(cuLaunchHostFunc)(
        stream,
        [](void* data) {
          while (!*static_cast<std::atomic<bool>*>(data)) std::this_thread::yield();
        },
        &go));
    CUresult result = CUDA_SUCCESS;
    int records = 0;
    for (; result == CUDA_SUCCESS && records < 10; ++records)
      result = CU(cuEventRecord)(event, stream);
    CHECK(result == CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK(records == 4);
    CHECK(found_full_queue(fixture.sim));
    go = true;
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  }
}

TEST_CASE("a full queue in a shared channel is reported as a channel finding") {
  SimFixture fixture(config("queue=1,connections=1"));
  const CUstream waiter = make_stream();
  const CUstream other = make_stream();
  const CUdeviceptr memory = make_memory(1);
  Flag<cuuint32_t> flag;
  flag.hold(waiter);
  OK(CU(cuMemsetD8Async)(memory, 1, 1, other));
  CHECK(CU(cuMemsetD8Async)(memory, 2, 1, other) == CUDA_SUCCESS);
  const std::vector<std::string> findings = fixture.sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("shared channel: "));
  flag.set(1);
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("a call that waits for room is refused if its stream is destroyed") {
  SimFixture fixture("memory=64MiB,queue=2,progress=manual");
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  Flag<cuuint32_t> flag;
  flag.hold(stream);
  OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));  // is left when there is room
  std::thread other([&] {
    OK(CU(cuCtxSetCurrent)(fixture.context));
    while (fixture.sim.calls("cuMemsetD8Async") < 2) std::this_thread::yield();
    OK(CU(cuStreamDestroy)(stream));
    flag.set(1);
  });
  CHECK(CU(cuMemsetD8Async)(memory, 1, 1, stream) == CUDA_ERROR_INVALID_HANDLE);
  other.join();
}

}  // namespace queue_test
