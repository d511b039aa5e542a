// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "sim/sim_fixture.hpp"

namespace stream_test {

using namespace berth;
using namespace berth::test;

namespace {

/// One byte of device memory that a stream fills.
struct Cell {
  explicit Cell(const sim::Simulator& simulator) : sim(simulator), pointer(make_memory(1)) {}
  void fill(unsigned char value, CUstream stream) const {
    OK(CU(cuMemsetD8Async)(pointer, value, 1, stream));
  }
  [[nodiscard]] bool holds(unsigned char value) const {
    return sim.peek(pointer, 1) == bytes_of(1, value);
  }
  const sim::Simulator& sim;
  CUdeviceptr pointer;
};

}  // namespace

TEST_CASE_FIXTURE(ManualFixture, "work is pending until stepped, in order") {
  const Cell cell(sim);
  const CUstream stream = make_stream();
  cell.fill(1, stream);
  cell.fill(2, stream);
  CHECK(sim.pending_operations(stream) == 2);
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  CHECK(sim.run_next(stream));
  CHECK(cell.holds(1));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  CHECK(sim.run_next(stream));
  CHECK(cell.holds(2));
  CHECK(CU(cuStreamQuery)(stream) == CUDA_SUCCESS);
  CHECK_FALSE(sim.run_next(stream));
}

TEST_CASE_FIXTURE(ManualFixture, "stream queries make no progress in manual mode") {
  const Cell cell(sim);
  const CUstream stream = make_stream();
  cell.fill(1, stream);
  for (int i = 0; i < 1000; ++i) REQUIRE(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  CHECK(sim.pending_operations(stream) == 1);
}

TEST_CASE_FIXTURE(ManualFixture, "synchronizing a stream runs its work and no other's") {
  const Cell one(sim);
  const Cell two(sim);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  one.fill(1, first);
  two.fill(2, second);
  CHECK(CU(cuStreamSynchronize)(first) == CUDA_SUCCESS);
  CHECK(one.holds(1));
  CHECK_FALSE(two.holds(2));
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  CHECK(two.holds(2));
}

TEST_CASE_FIXTURE(EagerFixture, "in eager mode work is done when the call returns") {
  const Cell cell(sim);
  for (const unsigned flags : {0U, 1U}) {
    const CUstream stream = make_stream(flags);
    cell.fill(static_cast<unsigned char>(flags + 1), stream);
    CHECK(cell.holds(static_cast<unsigned char>(flags + 1)));
    CHECK(CU(cuStreamQuery)(stream) == CUDA_SUCCESS);
    CHECK(sim.pending_operations(stream) == 0);
  }
}

TEST_CASE_FIXTURE(ManualFixture,
                  "non-blocking streams and the legacy stream do not wait for each other") {
  const Cell cell(sim);
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  cell.fill(1, stream);
  cell.fill(2, nullptr);
  CHECK(sim.run_next(nullptr));
  CHECK(sim.run_next(stream));
  cell.fill(1, nullptr);
  cell.fill(2, stream);
  CHECK(sim.run_next(stream));
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(nullptr) == 1);
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture, "two blocking streams do not wait for each other") {
  const Cell cell(sim);
  const CUstream first = make_stream(CU_STREAM_DEFAULT);
  const CUstream second = make_stream(CU_STREAM_DEFAULT);
  cell.fill(1, first);
  cell.fill(2, second);
  CHECK(sim.run_next(second));
  CHECK(sim.run_next(first));
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(ManualFixture,
                  "queries and waits on the legacy stream include blocking streams") {
  const Cell cell(sim);
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUstream free = make_stream(CU_STREAM_NON_BLOCKING);
  cell.fill(1, free);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_SUCCESS);
  cell.fill(2, blocking);
  CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_NOT_READY);
  CHECK(CU(cuStreamSynchronize)(nullptr) == CUDA_SUCCESS);
  CHECK(sim.pending_operations(blocking) == 0);
  CHECK(sim.pending_operations(free) == 1);
}

TEST_CASE_FIXTURE(ManualFixture,
                  "each thread has its own per-thread stream, which blocks as others do") {
  const Cell cell(sim);
  cell.fill(1, CU_STREAM_PER_THREAD);
  cell.fill(2, CU_STREAM_LEGACY);
  CHECK_FALSE(sim.run_next(CU_STREAM_LEGACY));
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    CHECK(sim.pending_operations(CU_STREAM_PER_THREAD) == 0);
    CHECK(CU(cuStreamQuery)(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    cell.fill(3, CU_STREAM_PER_THREAD);
    CHECK_FALSE(sim.run_next(CU_STREAM_PER_THREAD));  // behind the legacy stream
  }).join();
  CHECK(sim.run_next(CU_STREAM_PER_THREAD));
  CHECK(sim.run_next(CU_STREAM_LEGACY));
  CHECK(cell.holds(2));
  CHECK(sim.run_all() == 1);  // what the other thread left behind
  CHECK(cell.holds(3));
}

TEST_CASE_FIXTURE(ManualFixture, "a destroyed stream is invalid at once, and its work still runs") {
  const Cell cell(sim);
  const CUstream stream = make_stream();
  cell.fill(1, stream);
  CHECK(CU(cuStreamDestroy)(stream) == CUDA_SUCCESS);
  CHECK(sim.live().streams == 0);
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuStreamDestroy)(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_FALSE(cell.holds(1));
  CHECK(sim.live().streams_draining == 1);
  OK(CU(cuCtxSynchronize)());
  CHECK(cell.holds(1));
  CHECK(sim.live().streams_draining == 0);
}

TEST_CASE_FIXTURE(EagerFixture, "every call refuses an invalid stream handle") {
  const CUstream destroyed = make_stream();
  OK(CU(cuStreamDestroy)(destroyed));
  const CUdeviceptr memory = make_memory(16);
  const CUevent event = make_event();
  int local = 0;
  for (const CUstream stream :
       {destroyed, reinterpret_cast<CUstream>(&local), reinterpret_cast<CUstream>(3),
        reinterpret_cast<CUstream>(~0ULL), reinterpret_cast<CUstream>(event)}) {
    CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamDestroy)(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuStreamWaitEvent)(stream, event, 0) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuEventRecord)(event, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuMemsetD8Async)(memory, 0, 16, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuMemcpyAsync)(memory, memory, 16, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuMemcpyPeerAsync)(memory, context, memory, context, 16, stream) ==
          CUDA_ERROR_INVALID_HANDLE);
    CHECK(CU(cuLaunchHostFunc)(
              stream, [](void*) {}, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(CU(cuStreamDestroy)(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuStreamDestroy)(CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuStreamDestroy)(CU_STREAM_PER_THREAD) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(EagerFixture, "stream creation checks flags, and takes any priority") {
  CUstream stream = nullptr;
  int least = 1;
  int greatest = 1;
  CHECK(CU(cuCtxGetStreamPriorityRange)(&least, &greatest) == CUDA_SUCCESS);
  CHECK(least == 0);
  CHECK(greatest < 0);
  CHECK(CU(cuCtxGetStreamPriorityRange)(nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(CU(cuStreamCreateWithPriority)(nullptr, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuStreamCreateWithPriority)(&stream, 2, 0) == CUDA_ERROR_INVALID_VALUE);
  for (const int priority : {greatest, least, -1000, 1000})
    CHECK(CU(cuStreamCreateWithPriority)(&stream, 1, priority) == CUDA_SUCCESS);
  CHECK(sim.live().streams == 4);
}

TEST_CASE("a long queue keeps its order") {
  SimFixture fixture("devices=1,progress=manual,queue=off");
  sim::Simulator& sim = fixture.sim;
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(5000);
  for (unsigned i = 0; i < 5000; ++i)
    OK(CU(cuMemsetD8Async)(memory, static_cast<unsigned char>(i), 5000 - i, stream));
  for (int i = 0; i < 2500; ++i) REQUIRE(sim.run_next(stream));
  for (unsigned i = 0; i < 10; ++i) OK(CU(cuMemsetD8Async)(memory, 200, 1, stream));
  CHECK(sim.pending_operations(stream) == 2510);
  OK(CU(cuStreamSynchronize)(stream));
  const std::vector<unsigned char> content = sim.peek(memory, 5000);
  CHECK(content[0] == 200);
  for (unsigned i = 1; i < 5000; ++i) REQUIRE(content[i] == static_cast<unsigned char>(4999 - i));
}

}  // namespace stream_test
