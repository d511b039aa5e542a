// SPDX-License-Identifier: Apache-2.0
// Bug classes known from other allocators, when memory is short: free memory that is not found,
// state read before a driver call, memory that is returned too early.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace known_bugs_reclaim_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr Backing kBackings[] = {Backing::arena, Backing::segments};

/// What obtains memory from the driver, and what gives it back.
DriverCall obtaining(Backing backing) {
  return backing == Backing::arena ? DriverCall::mem_create : DriverCall::mem_alloc;
}
DriverCall returning(Backing backing) {
  return backing == Backing::arena ? DriverCall::mem_unmap : DriverCall::mem_free;
}

}  // namespace

// pytorch/pytorch issue 189504
TEST_CASE("a pool is searched again after a reclaim, before a request is refused") {
  for (const Backing backing : kBackings) {
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    const Stream user = test.stream();
    // The block shares what it lies in with a live one, so that it cannot be given back and
    // obtained again: only a search finds it.
    void* const wanted = test.allocate(9_MiB, own);
    test.allocate(9_MiB, own);
    test.free_used_by(wanted, user, "use");
    test.tap.refuse_all(obtaining(backing), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(test.allocate(9_MiB, own) == wanted);
    CHECK(test.log.is_done("use"));
    CHECK(test.counters().out_of_memory == 0);
  }
}

// pytorch/pytorch issue 189504
TEST_CASE("a pool is searched again after the lock was dropped for the driver") {
  for (const Backing backing : kBackings) {
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    void* const theirs = test.allocate(9_MiB, own);
    test.allocate(9_MiB, own);
    test.tap.before(obtaining(backing), [&] { test.allocator->deallocate(theirs); });
    test.tap.refuse_all(obtaining(backing), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(test.allocate(9_MiB, own) == theirs);
    CHECK(test.counters().out_of_memory == 0);
  }
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "state read before the lock was dropped for the driver is read again") {
  const Stream own = stream();
  void* const neighbor = allocate(32_MiB, own);
  free(neighbor);
  void* theirs = nullptr;
  tap.before(DriverCall::mem_create, [&] { theirs = allocator->allocate(32_MiB, own); });
  // To be had only together with the neighbor, which is free when the growth is planned.
  message_of<OutOfMemory>([&] { return allocate(48_MiB, own); });
  CHECK(theirs == neighbor);
  CHECK(counters().blocks_allocated.current == 1);
  free(theirs);
  CHECK(allocate(48_MiB, own) != nullptr);
  CHECK(counters().bytes_reserved.current <= kDeviceBytes);
}

// pytorch/pytorch issues 134338 and 123548
TEST_CASE("trim handles every kind of free memory") {
  for (const Backing backing : kBackings) {
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    CHECK(test.allocator->trim(0) == 0);  // nothing at all

    // A piece that is too small to be given back by itself, between two that are in use.
    void* const wall = test.allocate(512_KiB, own);
    void* const piece = test.allocate(512_KiB, own);
    void* const other_wall = test.allocate(1_MiB, own);
    test.free(piece);
    CHECK(test.allocator->trim(0) == 0);

    // Whole granules, and some that are joined while their neighbors go back.
    std::vector<void*> row;
    for (int index = 0; index < 8; ++index) row.push_back(test.allocate(2_MiB, own));
    for (const std::size_t index : {1u, 3u, 5u, 7u}) test.free(row[index]);
    void* const joined = test.allocate(6_MiB, own);
    CHECK((test.counters().page_remaps > 0) == (backing == Backing::arena));
    for (const std::size_t index : {0u, 2u, 4u, 6u}) test.free(row[index]);
    test.allocator->trim(0);
    test.allocator->validate();
    for (void* const live : {wall, joined}) {
      const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(live));
      CHECK(test.simulator.peek(address, live == wall ? 512_KiB : 6_MiB).size() > 0);
    }

    // Everything, in the middle of a request that still is too large.
    test.free(joined);
    message_of<OutOfMemory>([&] { return test.allocate(AllocatorFixture::kDeviceBytes, own); });
    test.free(wall);
    test.free(other_wall);
    CHECK(test.allocate(60_MiB, own) != nullptr);
    CHECK(test.allocator->trim(0) <= 4_MiB);
  }
}

// vllm-project/vllm issue 43020
TEST_CASE("memory is unmapped, or freed to the driver, only once the work that uses it is done") {
  for (const Backing backing : kBackings) {
    CAPTURE(int(backing));
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    const Stream user = test.stream();
    // What is joined is mapped twice: neither mapping may go early.
    std::vector<void*> row;
    for (int index = 0; index < 8; ++index) row.push_back(test.allocate(2_MiB, own));
    for (const std::size_t index : {1u, 3u, 5u, 7u}) test.free(row[index]);
    void* const joined = test.allocate(8_MiB, own);
    void* const recorded = test.allocate(12_MiB, own);
    test.log.submit(own, "work");
    test.free(joined);
    test.free_used_by(recorded, user, "use");
    bool asked = false;
    bool work_was_done = false;
    bool use_was_done = true;
    test.tap.before(returning(backing), [&] {
      asked = true;
      work_was_done = test.log.is_done("work");
      use_was_done = test.log.is_done("use");
    });
    for (const std::size_t index : {0u, 2u, 4u, 6u}) test.free(row[index]);
    const std::size_t kept = backing == Backing::arena ? 12_MiB : 20_MiB;  // whole segments
    CHECK(test.allocator->trim(kept) > 0);
    CHECK(asked);
    CHECK(work_was_done);
    CHECK_FALSE(use_was_done);
    // What another stream still uses has not gone with the rest.
    CHECK(test.counters().bytes_active.current == 12_MiB);
    CHECK(test.counters().bytes_reserved.current >= 12_MiB);
    test.simulator.run_all();
    CHECK(test.allocate(12_MiB, own) == recorded);
  }
}

// pytorch/pytorch issue 50925: one device's half of a collective waits for the other device's half,
// which the host has yet to launch. A host that waits for the first half waits for ever.
TEST_CASE("between the two launches of a collective, no request and no free waits for a device") {
  sim::Config config = manual_progress();
  config.devices = 2;
  config.memory = {64_MiB, 64_MiB};
  Simulation test(config);
  DeviceAllocator& memory = test.runtime->memory(Device::cuda(1));
  const Stream first = test.runtime->create_stream(Device::cuda(0));
  const Stream second = test.runtime->create_stream(Device::cuda(1));
  const Stream idle = test.runtime->create_stream(Device::cuda(1));
  const Stream busy = test.runtime->create_stream(Device::cuda(1));
  Allocation of_idle = memory.allocate(20_MiB, idle);
  Allocation of_busy = memory.allocate(20_MiB, busy);
  std::vector<Allocation> small;
  for (int index = 0; index < 12; ++index) small.push_back(memory.allocate(2_MiB, second));
  test.log.submit(first, "first half");
  test.log.submit(busy, "first half too");

  // The device is full: the request takes what is idle, and what is not behind a wait on the
  // device.
  const char* const waits[] = {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
                               "cuMemFree",        "cuMemFreeHost",       "cuMemAlloc"};
  std::vector<std::uint64_t> before;
  for (const char* const call : waits) before.push_back(test.simulator.calls(call));
  small[3].record_stream(busy);
  small.clear();
  of_idle.reset();
  of_busy.reset();
  const Allocation large = memory.allocate(60_MiB, second);
  for (std::size_t index = 0; index < before.size(); ++index) {
    CAPTURE(waits[index]);
    CHECK(test.simulator.calls(waits[index]) == before[index]);
  }
  CHECK_FALSE(test.log.is_done("first half"));
  CHECK_FALSE(test.log.is_done("first half too"));
}

// pytorch/pytorch issue 107330
TEST_CASE("out of memory in the very first request is an error, with or without observers") {
  sim::Simulator simulator(small_device(64_MiB));
  RuntimeOptions options;
  options.driver = "sim";
  DeviceAllocator* memory = nullptr;
  int asked = 0;
  SUBCASE("without observers") {}
  SUBCASE("with an observer that reads all counters") {
    options.device_allocator.on_pressure = [&](std::size_t) {
      check_whole(*memory);
      CHECK(memory->counters().allocations == 0);
      ++asked;
      return false;
    };
  }
  const bool has_observer = options.device_allocator.on_pressure != nullptr;
  Runtime runtime(options);
  const Stream stream = runtime.create_stream(Device::cuda(0));
  memory = &runtime.memory(Device::cuda(0));
  simulator.set_device_memory_limit(0, 0);
  message_of<OutOfMemory>([&] { return memory->allocate_raw(1_MiB, stream); });
  CHECK(asked == (has_observer ? 1 : 0));
  simulator.set_device_memory_limit(0, 64_MiB);
  // Left live, so that the end has something to report, and nobody to report it to.
  CHECK(memory->allocate_raw(1_MiB, stream) != nullptr);
}

}  // namespace known_bugs_reclaim_test
