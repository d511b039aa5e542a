// SPDX-License-Identifier: Apache-2.0
// Uses by streams that are destroyed, captured or of other devices, and uses that are refused.
#include <string>

#include <doctest/doctest.h>

#include "memory/use_test.hpp"
#include "support/errors.hpp"

namespace record_use_streams_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = UseTest::kBytes;

}  // namespace

TEST_CASE("a use outlives its stream, destroyed before or after the free") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    void* const data = test.allocate();
    test.use(data, test.user, "use");
    test.log.submit(test.user, "later");
    SUBCASE("before") {
      test.memory.retire_stream(test.user);
      test.memory.deallocate(data);
    }
    SUBCASE("after") {
      test.memory.deallocate(data);
      test.memory.retire_stream(test.user);
    }
    check_whole(test.memory);
    CHECK_FALSE(test.is_reused(data));
    test.run_to_the_end_of("use", test.user);
    CHECK(test.is_reused(data));
    CHECK_FALSE(test.log.is_done("later"));
  });
}

TEST_CASE("a stream may be destroyed as soon as its use is recorded") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options, small_device(64_MiB, sim::Progress::manual));
    void* const data = test.memory.allocate_raw(60_MiB, test.own);
    {
      const Stream doomed = test.stream();
      test.use(data, doomed, "earlier");
    }
    test.memory.deallocate(data);
    check_whole(test.memory);
    const Allocation block = test.memory.allocate(60_MiB, test.own);
    CHECK(test.apart_or_in_order(data, 60_MiB, block.data(), 60_MiB, test.own));
    check_whole(test.memory);
  });
}

TEST_CASE("a use by a drained stream delays no reuse") {
  UseTest test;
  void* const data = test.allocate();
  {
    const Stream doomed = test.stream();
    test.use(data, doomed, "use");
  }
  test.simulator.run_all();
  test.memory.trim(~std::size_t{0});  // learns that the stream's last work has passed
  test.memory.deallocate(data);
  CHECK(test.counters().frees_deferred == 0);
  CHECK(test.is_reused(data));
}

TEST_CASE("a use is waited for by a later stream with the same handle") {
  UseTest test;
  void* const data = test.allocate();
  test.use(data, test.user, "use");
  test.memory.retire_stream(test.user);  // the handle lives on as another stream
  test.use(data, test.user, "use of the next");
  test.memory.deallocate(data);
  test.run_to_the_end_of("use", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("use of the next", test.user);
  CHECK(test.is_reused(data));
}

TEST_CASE("a use of the legacy default stream is waited for too") {
  UseTest test;
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(0));
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  void* const data = test.allocate();
  test.use(data, legacy, "use");
  test.log.submit(legacy, "later");
  test.memory.deallocate(data);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("use", legacy);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE("a use is recorded in the private pool that has the block") {
  UseTest test;
  MemoryPool pool = test.memory.create_pool({.name = "weights"});
  for (Allocator* const asked :
       {static_cast<Allocator*>(&test.memory), static_cast<Allocator*>(&pool)}) {
    void* const data = pool.allocate_raw(kBytes, test.own);
    test.log.submit(test.user, "use");
    asked->record_use(data, test.user);
    const std::uint64_t deferred = pool.counters().frees_deferred;
    pool.deallocate(data);
    CHECK(pool.counters().frees_deferred == deferred + 1);
    CHECK(test.counters().frees_deferred == 0);
    test.simulator.run_all();
    CHECK(pool.allocate(kBytes, test.own).data() == data);
  }
}

TEST_CASE("record_use() of a captured stream acts as record_stream()") {
  UseTest test;
  Allocation block = test.memory.allocate(kBytes, test.own);
  void* const data = block.data();
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  REQUIRE(sim::berth_sim_cuStreamBeginCapture(test.user.ref().native(),
                                              CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const std::uint64_t records = test.calls("cuEventRecord");
  test.use(data, test.user, "captured");
  CHECK(test.calls("cuEventRecord") == records);
  CUgraph graph = nullptr;
  SUBCASE("freed after the capture, and marked by the free") {
    REQUIRE(sim::berth_sim_cuStreamEndCapture(test.user.ref().native(), &graph) == CUDA_SUCCESS);
    test.log.submit(test.user, "until the free");
    block.reset();
    CHECK(test.calls("cuEventRecord") == records + 1);
    CHECK_FALSE(test.is_reused(data));
    test.run_to_the_end_of("until the free", test.user);
    CHECK(test.is_reused(data));
  }
  SUBCASE("freed in the capture, and marked later") {
    block.reset();
    CHECK_FALSE(test.is_reused(data));
    REQUIRE(sim::berth_sim_cuStreamEndCapture(test.user.ref().native(), &graph) == CUDA_SUCCESS);
    test.simulator.run_all();
    CHECK(test.calls("cuEventRecord") == records);
    test.memory.trim(~std::size_t{0});  // marks it
    test.simulator.run_all();
    CHECK(test.is_reused(data));
  }
  CHECK(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE(
    "a completed use is reclaimed during a capture of its stream, and others wait for its end") {
  UseTest test;
  void* const used = test.allocate();
  void* const captured = test.allocate();
  test.use(used, test.user, "use");
  test.run_to_the_end_of("use", test.user);
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  REQUIRE(sim::berth_sim_cuStreamBeginCapture(test.user.ref().native(),
                                              CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  test.use(captured, test.user, "captured");
  test.memory.deallocate(captured);
  test.memory.deallocate(used);
  CHECK(test.is_reused(used));
  CHECK(test.counters().blocks_pending.current == 1);
  CUgraph graph = nullptr;
  REQUIRE(sim::berth_sim_cuStreamEndCapture(test.user.ref().native(), &graph) == CUDA_SUCCESS);
  CHECK(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("a use of a pointer that is no live block, or by an unsuitable stream, is refused") {
  sim::Config config = manual_progress();
  config.devices = 2;
  UseTest test({}, config);
  const Stream there = test.runtime->create_stream(Device::cuda(1));
  const StreamRef per_thread = test.runtime->stream(Device::cuda(0), CU_STREAM_PER_THREAD);
  const Allocation block = test.memory.allocate(1000, test.own);
  const Allocation pinned = test.runtime->pinned_memory().allocate(1000);
  void* const freed = test.memory.allocate_raw(kBytes, test.own);
  test.memory.deallocate(freed);
  int on_stack = 0;
  const MemoryCounters before = test.counters();
  const std::uint64_t calls = driver_calls(*test.runtime);
  for (void* const stranger : {static_cast<void*>(&on_stack), freed, pinned.data(),
                               static_cast<void*>(static_cast<char*>(block.data()) + 1)}) {
    const std::string message =
        message_of<InvalidArgument>([&] { test.memory.record_use(stranger, test.user); });
    CHECK(contains(message, "cuda:0"));
    CHECK(contains(message, "record a use of"));
  }
  CHECK(contains(message_of<InvalidArgument>([&] { block.record_use(there); }), "cuda:1"));
  for (const Allocation* each : {&block, &pinned}) {
    CHECK(
        contains(message_of<InvalidArgument>([&] { each->record_use(per_thread); }), "per-thread"));
  }
  CHECK(same_levels(test.counters(), before));
  CHECK(driver_calls(*test.runtime) == calls);
  test.memory.record_use(nullptr, test.user);
  Allocation().record_use(test.user);
  CHECK(driver_calls(*test.runtime) == calls);
  check_whole(test.memory);
}

TEST_CASE("pinned memory waits for the uses of every device, and for no later work") {
  sim::Config config = manual_progress();
  config.devices = 2;
  UseTest test({}, config);
  PinnedAllocator& pinned = test.runtime->pinned_memory();
  const Stream there = test.runtime->create_stream(Device::cuda(1));
  Allocation block = pinned.allocate(kBytes);  // a segment of its own
  void* const data = block.data();
  for (const StreamRef user : {test.user.ref(), there.ref()}) {
    test.log.submit(user, "use on " + user.device().to_string());
    block.record_use(user);
    test.log.submit(user, "later");
  }
  block.reset();
  test.run_to_the_end_of("use on cuda:0", test.user);
  const Allocation beside = pinned.allocate(kBytes);
  CHECK(beside.data() != data);
  test.run_to_the_end_of("use on cuda:1", there);
  CHECK(pinned.allocate(kBytes).data() == data);
  CHECK_FALSE(test.log.is_done("later"));
  check_whole(pinned);
}

}  // namespace record_use_streams_contract_test
