// SPDX-License-Identifier: Apache-2.0
// Races, and orders other than by events: values that streams wait for, and memory of pools.
#include <atomic>
#include <string>

#include "sim/pool_fixture.hpp"

namespace race_order_test {

using namespace berth;
using namespace berth::test;

namespace {

const char* const kModes[] = {"eager", "manual", "random", "timed"};

std::string in(const char* mode) {
  return std::string("memory=64MiB,progress=") + mode;
}

void fill(CUdeviceptr memory, CUstream stream) {
  OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
}
void wait_value(CUstream stream, CUdeviceptr flag) {
  OK(CU(cuStreamWaitValue32)(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
}
void write_value(CUstream stream, CUdeviceptr flag) {
  OK(CU(cuStreamWriteValue32)(stream, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

/// A flag on the device, zero.
CUdeviceptr make_flag() {
  const CUdeviceptr flag = make_memory(4);
  OK(CU(cuMemsetD8Async)(flag, 0, 4, nullptr));
  OK(CU(cuCtxSynchronize)());
  return flag;
}

bool races(SimFixture& fixture) {
  fixture.sim.run_all();
  return found_race(fixture.sim);
}

}  // namespace

TEST_CASE("a value orders work before its write with work after the wait") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    SimFixture fixture(in(mode));
    const CUdeviceptr memory = make_memory(64);
    const CUdeviceptr flag = make_flag();
    const CUstream writer = make_stream();
    const CUstream waiter = make_stream();
    fill(memory, writer);
    write_value(writer, flag);
    wait_value(waiter, flag);
    fill(memory, waiter);
    CHECK_FALSE(races(fixture));
    fill(memory, writer);  // after the value
    CHECK(races(fixture));
  }
}

TEST_CASE("a wait may be submitted before the write that satisfies it, and orders later work") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    SimFixture fixture(in(mode));
    const CUdeviceptr memory = make_memory(64);
    const CUdeviceptr flag = make_flag();
    const CUdeviceptr other_flag = make_flag();
    const CUstream writer = make_stream();
    const CUstream waiter = make_stream();
    const CUstream last = make_stream();
    const CUevent event = make_event();
    wait_value(last, other_flag);
    fill(memory, last);
    wait_value(waiter, flag);
    fill(memory, waiter);
    write_value(waiter, other_flag);
    OK(CU(cuEventRecord)(event, waiter));
    fill(memory, writer);
    write_value(writer, flag);
    OK(CU(cuStreamSynchronize)(last));
    CHECK_FALSE(races(fixture));
    OK(CU(cuStreamWaitEvent)(last, event, 0));
    fill(memory, last);
    CHECK_FALSE(races(fixture));
  }
}

TEST_CASE("a value written by the host is ordered after all that the host has observed") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    SimFixture fixture(in(mode));
    const CUdeviceptr memory = make_memory(64);
    auto* const flag = reinterpret_cast<unsigned*>(make_pinned(4));
    std::atomic_ref<unsigned>(*flag).store(0);
    const CUstream first = make_stream();
    const CUstream waiter = make_stream();
    wait_value(waiter, address_of(flag));
    fill(memory, waiter);
    fill(memory, first);
    OK(CU(cuStreamSynchronize)(first));
    std::atomic_ref<unsigned>(*flag).store(1);
    OK(CU(cuStreamSynchronize)(waiter));
    CHECK_FALSE(races(fixture));
  }
}

TEST_CASE("a value does not order work after its write, or other values") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    SimFixture fixture(in(mode));
    const CUdeviceptr memory = make_memory(64);
    const CUdeviceptr flag = make_flag();
    const CUdeviceptr other_flag = make_flag();
    const CUstream writer = make_stream();
    const CUstream waiter = make_stream();
    write_value(writer, flag);
    fill(memory, writer);
    write_value(writer, other_flag);
    wait_value(waiter, flag);
    fill(memory, waiter);
    CHECK(races(fixture));
  }
}

TEST_CASE("pool memory may be used on another stream between its allocation and its free") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    SimFixture fixture(in(mode));
    const CUstream owner = make_stream();
    const CUstream user = make_stream();
    const CUevent event = make_event();
    const CUdeviceptr memory = allocate_async(64, owner);
    OK(CU(cuEventRecord)(event, owner));
    OK(CU(cuStreamWaitEvent)(user, event, 0));
    fill(memory, user);
    OK(CU(cuEventRecord)(event, user));
    OK(CU(cuStreamWaitEvent)(owner, event, 0));
    OK(CU(cuMemFreeAsync)(memory, owner));
    CHECK_FALSE(races(fixture));
  }
}

TEST_CASE("a use not ordered with the free of pool memory is a race, or a fault after the free") {
  for (const bool free_first : {false, true}) {
    SimFixture fixture(in("manual"));
    const CUstream owner = make_stream();
    const CUstream user = make_stream();
    const CUdeviceptr memory = allocate_async(64, owner);
    OK(CU(cuStreamSynchronize)(owner));
    fill(memory, user);
    OK(CU(cuMemFreeAsync)(memory, owner));
    CHECK(fixture.sim.run_next(free_first ? owner : user));
    fixture.sim.run_all();
    const std::vector<std::string> findings = fixture.sim.take_findings();
    CHECK(findings.size() == (free_first ? 0 : 1));
    CHECK(CU(cuCtxSynchronize)() == (free_first ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS));
    if (free_first) continue;
    CHECK(findings[0].find("cuMemFreeAsync") != std::string::npos);
    CHECK(findings[0].find("frees 64 B") != std::string::npos);
  }
}

TEST_CASE("memory that a pool passes between streams is ordered") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    SimFixture fixture(in(mode));
    const CUstream first = make_stream();
    const CUstream second = make_stream();
    // Nearly all of the device, so that the second allocation must take what the first had.
    constexpr std::size_t bytes = 48 << 20;
    const CUdeviceptr memory = allocate_async(bytes, first);
    fill(memory, first);
    OK(CU(cuMemFreeAsync)(memory, first));
    CHECK(allocate_async(bytes, second) == memory);
    fill(memory, second);
    CHECK_FALSE(races(fixture));
    fill(memory, first);  // stale: it is the second stream's now
    fixture.sim.run_all();
    CHECK(found_race(fixture.sim));
  }
}

TEST_CASE("pools follow events with checks off, too") {
  SimFixture fixture("memory=64MiB,progress=manual,checks=off");
  const CUmemoryPool pool = make_pool(0, kGranule);
  set_policy(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, false);
  set_policy(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, false);
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr memory = allocate_from(pool, kGranule, first);
  OK(CU(cuMemFreeAsync)(memory, first));
  CUdeviceptr refused = 0;
  CHECK(CU(cuMemAllocFromPoolAsync)(&refused, kGranule, pool, second) == CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  CHECK(allocate_from(pool, kGranule, second) == memory);
  fixture.sim.run_all();
}

}  // namespace race_order_test
