// SPDX-License-Identifier: Apache-2.0
// Bug classes known from other allocators, with several streams: waits for the wrong work, wrong
// events, reused stream handles.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "memory/memory_fixture.hpp"
#include "support/second_thread.hpp"

namespace known_bugs_streams_test {

using namespace berth;
using namespace berth::test;

// pytorch/pytorch issues 71616 (device memory) and 183501 (pinned memory)
TEST_CASE("a stuck event of one stream does not hold up deferred frees of others") {
  for (const bool has_order : {true, false}) {
    CAPTURE(has_order);
    AllocatorFixture test;
    const Stream own = test.stream();
    const Stream stuck = test.stream();
    const Stream fine = test.stream();
    const auto allocate = [&](std::size_t bytes) {
      return has_order ? test.allocate(bytes, own) : test.allocate(bytes, std::nullopt);
    };
    void* const held = allocate(8_MiB);
    std::vector<void*> others;
    for (int index = 0; index < 3; ++index) others.push_back(allocate(8_MiB));
    const std::uint64_t reserved = test.counters().bytes_reserved.current;
    test.free_used_by(held, stuck, "stuck");
    for (void* const data : others) test.free_used_by(data, fine, "fine");
    test.run_stream(fine);
    for (int index = 0; index < 3; ++index) CHECK(std::ranges::count(others, allocate(8_MiB)) == 1);
    CHECK(test.counters().bytes_reserved.current == reserved);
    CHECK(test.counters().blocks_pending.current == 1);
    CHECK_FALSE(test.log.is_done("stuck"));
  }
}

// cub::CachingDeviceAllocator since NVIDIA/cub pull request 328: the block is in the cache before
// its event is recorded, and the event still says what it said of the block's last life.
TEST_CASE_FIXTURE(AllocatorFixture,
                  "a freed block is not reused before the event that marks its use exists") {
  const Stream own = stream();
  const Stream user = stream();
  const Stream other = stream();
  void* const data = allocate(8_MiB, own);
  free_used_by(data, user, "use in an earlier life");
  run_stream(user);
  REQUIRE(allocate(8_MiB, own) == data);
  REQUIRE(events.leases_live() == 0);  // so that the next event is the one that has passed

  bool asked = false;
  const auto others_ask = [&] {
    for (const StreamRef stream : {own.ref(), other.ref()})
      CHECK(allocator->allocate(8_MiB, stream) != data);
    asked = true;
  };
  SUBCASE("before the event is recorded") {
    tap.before(DriverCall::event_record, others_ask);
  }
  SUBCASE("after the driver recorded the event, before the allocator stores it") {
    tap.after(DriverCall::event_record, others_ask);
  }
  free_used_by(data, user, "use");
  CHECK(asked);
  CHECK_FALSE(log.is_done("use"));
  CHECK(allocate(8_MiB, other) != data);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(user);
  CHECK(allocate(8_MiB, own) == data);
}

// pytorch/pytorch issue 867
TEST_CASE(
    "the event of a deferred free is one of the using stream's device, whichever is current") {
  sim::Config config = manual_progress();
  config.devices = 2;
  Simulation test(config);
  PinnedAllocator& memory = test.runtime->pinned_memory();
  for (const int device : {0, 1}) {
    CAPTURE(device);
    const Stream user = test.runtime->create_stream(Device::cuda(device));
    void* const data = memory.allocate_raw(20_MiB);
    memory.record_stream(data, user);
    test.log.submit(user, "use on " + user.ref().device().to_string());
    {
      const DeviceGuard other(test.runtime->devices(), Device::cuda(1 - device));
      memory.deallocate(data);
    }
    CHECK(test.reports.all().empty());
    const Allocation meanwhile = memory.allocate(20_MiB);
    CHECK(meanwhile.data() != data);
    test.run_stream(user);
    const Allocation again = memory.allocate(20_MiB);
    CHECK(again.data() == data);
  }
}

// rapidsai/rmm issue 649: here the cache that still knows the old handle is another thread's.
TEST_CASE_FIXTURE(AllocatorFixture,
                  "a destroyed stream's handle that comes back is a new stream, on every thread") {
  const Stream own = stream();
  SecondThread second;
  void* data = nullptr;
  second.run([&] {
    data = allocator->allocate(8_MiB, own);
    log.submit(own, "last work");
    allocator->deallocate(data);
  });
  allocator->retire_stream(own);  // and used again, as a later stream with the same handle would be
  void* again = nullptr;
  second.run([&] { again = allocator->allocate(8_MiB, own); });
  CHECK(again != data);
  CHECK(allocate(8_MiB, own) != data);
  CHECK_FALSE(log.is_done("last work"));
  allocator->validate();
}

// pytorch/pytorch issue 66936
TEST_CASE("an external stream may be recorded on a block and destroyed before the block is freed") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream own = test.stream();
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    CUstream native = nullptr;
    REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&native, CU_STREAM_NON_BLOCKING, 0) ==
            CUDA_SUCCESS);
    const StreamRef external = test.runtime->stream(Device::cuda(0), native);
    void* const data = test.memory.allocate_raw(40_MiB, own);
    test.memory.record_stream(data, external);
    test.log.submit(external, "earlier");
    test.memory.retire_stream(external);
    REQUIRE(sim::berth_sim_cuStreamDestroy(native) == CUDA_SUCCESS);

    test.memory.deallocate(data);
    CHECK(test.reports.all().empty());
    CHECK(test.counters().blocks_pending.current == 1);
    const Allocation meanwhile = test.memory.allocate(20_MiB, own);
    CHECK(test.apart_or_in_order(data, 40_MiB, meanwhile.data(), 20_MiB, own));
    CHECK_FALSE(test.log.is_done("earlier"));
    test.simulator.run_all();
    const Allocation again = test.memory.allocate(40_MiB, own);
    CHECK(again.data() == data);
    check_whole(test.memory);
  });
}

// The guard in try_merge of PyTorch's CUDACachingAllocator.
TEST_CASE("a freed block that awaits events does not merge with its free neighbors") {
  for (const Backing backing : {Backing::arena, Backing::segments}) {
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    const Stream user = test.stream();
    void* const first = test.allocate(3_MiB, own);
    void* const second = test.allocate(3_MiB, own);
    void* const third = test.allocate(3_MiB, own);
    test.free_used_by(second, user, "use");
    test.free(first);
    test.free(third);
    for (const std::size_t bytes : {6_MiB, 9_MiB}) {
      void* const data = test.allocate(bytes, own);
      CHECK_FALSE(overlap(data, bytes, second, 3_MiB));
      test.free(data);
    }
    CHECK_FALSE(test.log.is_done("use"));
    CHECK(test.counters().blocks_pending.current == 1);
    test.run_stream(user);
    test.allocator->trim(0);  // whole again, or something would stay
    CHECK(test.counters().bytes_reserved.current == 0);
  }
}

// pytorch/pytorch issue 188252: a round robin that starts again hands out streams that are in use.
TEST_CASE("a stream pool never leases a stream in use") {
  RuntimeOptions options;
  options.stream_pool.streams_max = 4;
  Simulation test({}, options);
  StreamPool& pool = test.runtime->streams(Device::cuda(0));
  std::vector<StreamLease> out;
  for (int round = 0; round < 12; ++round) {
    while (out.size() < 4) {
      StreamLease next = pool.acquire();
      for (const StreamLease& lease : out) CHECK_FALSE(lease.ref() == next.ref());
      out.push_back(std::move(next));
    }
    out.erase(out.begin() + round % 4);
    if (round % 3 == 0) out.erase(out.begin() + round % 2);
  }
  CHECK(pool.streams_created() == 4);
}

}  // namespace known_bugs_streams_test
