// SPDX-License-Identifier: Apache-2.0
// Streams that wait for values of memory: conditions, progress in every mode, and waits that never
// end.
#include <string>
#include <thread>

#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"

namespace wait_value_test {

using namespace berth;
using namespace berth::test;

namespace {

struct StallFixture : SimFixture {
  StallFixture() : SimFixture("memory=64MiB,progress=manual,stall_ms=20") {}
};

std::string config(const char* progress) {
  return std::string("memory=64MiB,progress=") + progress;
}

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "each condition blocks its stream until it is met") {
  struct Case {
    unsigned flags;
    cuuint32_t value, before, after;
  };
  const Case cases[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5},
      {CU_STREAM_WAIT_VALUE_GEQ, 5, 0x80000005, 0x7fffffff},
      {CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0, 0xffffffef, 3},  // cyclic
      {CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
      {CU_STREAM_WAIT_VALUE_AND, 6, 9, 4},
      {CU_STREAM_WAIT_VALUE_NOR, 0x0fffffff, 0xf0000000, 0x70000000},
      {CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH, 5, 6, 5},
  };
  for (const Case& c : cases) {
    CAPTURE(c.flags);
    CAPTURE(c.value);
    const CUstream stream = make_stream();
    Flag<cuuint32_t> flag;
    flag.set(c.before);
    CHECK(CU(cuStreamWaitValue32)(stream, flag.address(), c.value, c.flags) == CUDA_SUCCESS);
    CHECK_FALSE(sim.run_next(stream));
    flag.set(c.after);
    CHECK(sim.run_next(stream));
  }
}

TEST_CASE_FIXTURE(ManualFixture, "64-bit conditions look at all bits") {
  struct Case {
    unsigned flags;
    cuuint64_t value, before, after;
  };
  constexpr cuuint64_t high = 1ULL << 40;
  const Case cases[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, high, high - 1, high},
      {CU_STREAM_WAIT_VALUE_GEQ, ~0ULL - 5, ~0ULL - 6, 3},
      {CU_STREAM_WAIT_VALUE_EQ, high + 5, 5, high + 5},
      {CU_STREAM_WAIT_VALUE_AND, high, ~high, high},
      {CU_STREAM_WAIT_VALUE_NOR, ~high, high, 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.flags);
    const CUstream stream = make_stream();
    Flag<cuuint64_t> flag;
    flag.set(c.before);
    CHECK(CU(cuStreamWaitValue64)(stream, flag.address(), c.value, c.flags) == CUDA_SUCCESS);
    CHECK_FALSE(sim.run_next(stream));
    flag.set(c.after);
    CHECK(sim.run_next(stream));
  }
}

TEST_CASE_FIXTURE(ManualFixture, "a write changes its own bytes, in stream order") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(16);
  OK(CU(cuMemsetD8Async)(memory, 9, 16, stream));
  CHECK(CU(cuStreamWriteValue32)(stream, memory + 4, 0x04030201, 0) == CUDA_SUCCESS);
  CHECK(CU(cuStreamWriteValue64)(stream, memory + 8, 0x0807060504030201, 0) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(stream) == 3);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(sim.peek(memory, 16) ==
        std::vector<unsigned char>{9, 9, 9, 9, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("a host wait runs the write that another stream waits for, in every mode") {
  for (const char* progress : {"eager", "manual", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(config(progress));
    const CUdeviceptr flag = make_memory(8);
    const CUdeviceptr memory = make_memory(1);
    OK(CU(cuMemsetD8Async)(flag, 0, 8, nullptr));
    OK(CU(cuCtxSynchronize)());
    const CUstream waiter = make_stream();
    const CUstream writer = make_stream();
    OK(CU(cuStreamWaitValue64)(waiter, flag, 7, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuMemsetD8Async)(memory, 5, 1, waiter));
    CHECK(CU(cuStreamQuery)(waiter) == CUDA_ERROR_NOT_READY);
    OK(CU(cuStreamWriteValue64)(writer, flag, 7, 0));
    CHECK(CU(cuStreamSynchronize)(waiter) == CUDA_SUCCESS);
    CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 5));
  }
}

TEST_CASE("a copy or a fill satisfies a wait as a value write does") {
  for (const char* progress : {"eager", "manual", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(config(progress));
    Flag<cuuint32_t> flag;
    const CUstream waiter = make_stream();
    OK(CU(cuStreamWaitValue32)(waiter, flag.address(), 0x01010101, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuMemsetD8Async)(flag.address(), 1, 4, make_stream()));
    CHECK(CU(cuStreamSynchronize)(waiter) == CUDA_SUCCESS);
  }
}

TEST_CASE("a host wait sees a value that another thread writes without a call") {
  for (const char* progress : {"eager", "manual", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(config(progress));
    Flag<cuuint32_t> flag;
    const CUstream stream = make_stream();
    OK(CU(cuStreamWaitValue32)(stream, flag.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
    std::thread host([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      flag.set(1);
    });
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    host.join();
  }
}

TEST_CASE("in eager mode work continues after a host write without a further call") {
  const SimFixture fixture(config("eager"));
  Flag<cuuint32_t> go;
  Flag<cuuint32_t> gone;
  const CUstream stream = make_stream();
  OK(CU(cuStreamWaitValue32)(stream, go.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  OK(CU(cuStreamWriteValue32)(stream, gone.address(), 1, 0));
  CHECK(gone.get() == 0);
  go.set(1);
  while (gone.get() == 0) std::this_thread::yield();
  CHECK(gone.get() == 1);
}

TEST_CASE("in eager mode work behind the last value continues, whichever call observes it") {
  SimFixture fixture(config("eager"));
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr memory = make_memory(4096);
  Flag<cuuint32_t> flag;
  // More than once: the simulator's own look at the value may come first.
  for (cuuint32_t round = 1; round <= 50; ++round) {
    CAPTURE(round);
    OK(CU(cuStreamWaitValue32)(stream, flag.address(), round, CU_STREAM_WAIT_VALUE_GEQ));
    OK(CU(cuEventRecord)(event, stream));
    OK(CU(cuMemsetD8Async)(memory, 1, 4096, stream));
    flag.set(round);
    if (round % 2 == 0)
      OK(CU(cuMemsetD8Async)(memory, 2, 4096, stream));
    else
      OK(CU(cuEventSynchronize)(event));
    CHECK(fixture.sim.pending_operations(stream) == 0);
  }
}

TEST_CASE("a polling loop observes a value") {
  for (const char* progress : {"eager", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(config(progress));
    Flag<cuuint32_t> flag;
    const CUstream stream = make_stream();
    OK(CU(cuStreamWaitValue32)(stream, flag.address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < 20; ++i) CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
    flag.set(1);
    while (CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY) continue;
    CHECK(CU(cuStreamQuery)(stream) == CUDA_SUCCESS);
  }
}

TEST_CASE("a value may come from a host function") {
  for (const char* progress : {"eager", "manual", "random"}) {
    CAPTURE(progress);
    const SimFixture fixture(config(progress));
    Flag<cuuint32_t> flag;
    const CUstream waiter = make_stream();
    OK(CU(cuStreamWaitValue32)(waiter, flag.address(), 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuLaunchHostFunc)(
        make_stream(), [](void* data) { static_cast<Flag<cuuint32_t>*>(data)->set(1); }, &flag));
    CHECK(CU(cuStreamSynchronize)(waiter) == CUDA_SUCCESS);
  }
}

TEST_CASE_FIXTURE(StallFixture, "a wait that nothing satisfies is reported and fails its context") {
  Flag<cuuint32_t> flag;
  flag.set(3);
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(1);
  OK(CU(cuStreamWaitValue32)(stream, flag.address(), 5, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuMemsetD8Async)(memory, 1, 1, stream));
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_LAUNCH_TIMEOUT);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_LAUNCH_TIMEOUT);
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].find("now 3") != std::string::npos);
  CHECK(sim.pending_operations(stream) == 0);
}

TEST_CASE_FIXTURE(StallFixture, "a wait behind a wait that nothing satisfies is reported as well") {
  Flag<cuuint32_t> flag;
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  OK(CU(cuStreamWaitValue32)(first, flag.address(), 5, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  CHECK(CU(cuStreamSynchronize)(second) == CUDA_ERROR_LAUNCH_TIMEOUT);
  CHECK(sim.take_findings().size() == 1);
}

TEST_CASE_FIXTURE(StallFixture, "a long host function is reported, and may still write the value") {
  Flag<cuuint32_t> flag;
  const CUstream waiter = make_stream();
  const CUstream other = make_stream();
  const CUevent event = make_event();
  OK(CU(cuLaunchHostFunc)(
      other,
      [](void* data) {
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        static_cast<Flag<cuuint32_t>*>(data)->set(5);
      },
      &flag));
  OK(CU(cuStreamWaitValue32)(waiter, flag.address(), 5, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuEventRecord)(event, waiter));
  CHECK(CU(cuEventSynchronize)(event) == CUDA_SUCCESS);
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("stall: a call waits for stream "));
  CHECK(findings[0].find("while cuLaunchHostFunc") != std::string::npos);
}

TEST_CASE_FIXTURE(ManualFixture, "a wait for a value in freed memory faults") {
  const CUstream stream = make_stream();
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUdeviceptr memory = make_memory(8);
  OK(CU(cuCtxSetCurrent)(context));
  OK(CU(cuCtxEnablePeerAccess)(retain(1), 0));
  OK(CU(cuStreamWaitValue32)(stream, memory, 5, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuCtxSetCurrent)(retain(1)));
  OK(CU(cuMemFree)(memory));
  OK(CU(cuCtxSetCurrent)(context));
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE_FIXTURE(ManualFixture, "a batch is queued in order, or refused as a whole") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(16);
  OK(CU(cuMemsetD8Async)(memory, 0, 16, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CUstreamBatchMemOpParams ops[4] = {};
  ops[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, memory, {.value = 1}, 0, 0};
  ops[1].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_GPU};
  ops[2].flushRemoteWrites = {CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0};
  ops[3].waitValue = {
      CU_STREAM_MEM_OP_WAIT_VALUE_32, memory, {.value = 1}, CU_STREAM_WAIT_VALUE_EQ, 0};
  CHECK(CU(cuStreamBatchMemOp)(stream, 4, ops, 0) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(stream) == 2);
  CHECK(sim.run_next(stream));
  CHECK(sim.run_next(stream));
  ops[3].waitValue.flags = 4;
  CHECK(CU(cuStreamBatchMemOp)(stream, 4, ops, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(sim.pending_operations(stream) == 0);
  CHECK(CU(cuStreamBatchMemOp)(stream, 3, ops, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamBatchMemOp)(stream, 256, ops, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamBatchMemOp)(stream, 1, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  ops[0].operation = static_cast<CUstreamBatchMemOpType>(7);
  CHECK(CU(cuStreamBatchMemOp)(stream, 1, ops, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(ManualFixture, "addresses and flags of memory operations are checked") {
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(16);
  cuuint64_t pageable[2] = {};
  const CUdeviceptr freed = make_memory(1 << 21);
  OK(CU(cuMemFree)(freed));
  for (const CUdeviceptr wrong :
       {CUdeviceptr{0}, memory + 2, freed, memory + 16, address_of(pageable), ~CUdeviceptr{3}}) {
    CAPTURE(wrong);
    CHECK(CU(cuStreamWaitValue32)(stream, wrong, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuStreamWriteValue32)(stream, wrong, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuStreamWaitValue64)(stream, wrong, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuStreamWriteValue64)(stream, wrong, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(CU(cuStreamWriteValue64)(stream, memory + 4, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWaitValue32)(stream, memory, 0, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWriteValue32)(stream, memory, 0, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamWriteValue32)(stream, memory, 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuStreamWaitValue32)(reinterpret_cast<CUstream>(0x99), memory, 0, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace wait_value_test
