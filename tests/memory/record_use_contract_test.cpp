// SPDX-License-Identifier: Apache-2.0
// What a use that ends before the block is freed makes others wait for. Work is pending throughout:
// in manual progress it runs only where a test steps it or a host call waits for it.
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 32_MiB;

/// A block of stream `own`, and what becomes of it.
struct UseTest : MemoryTest {
  explicit UseTest(const DeviceAllocatorOptions& options = {},
                   const sim::Config& config = manual_progress())
      : MemoryTest(config, options) {}

  void* allocate() { return memory.allocate_raw(kBytes, own); }
  void use(void* data, StreamRef by, const std::string& name) {
    log.submit(by, name);
    memory.record_use(data, by);
  }
  /// Runs `by` until the work `name` is done, and what marks its end.
  void run_to_the_end_of(const std::string& name, StreamRef by) {
    while (!log.is_done(name)) REQUIRE(run_next(by));
    run_next(by);
  }
  /// Whether a request of the same size on the same stream gets the block, which was freed.
  [[nodiscard]] bool is_reused(void* data) {
    Allocation again = memory.allocate(kBytes, own);
    check_whole(memory);
    const bool same = again.data() == data;
    others.push_back(std::move(again));
    return same;
  }
  [[nodiscard]] std::uint64_t calls(std::string_view function) const {
    return driver_calls(*runtime, function);
  }

  Stream own = stream();
  Stream user = stream();
  std::vector<Allocation> others;
};

}  // namespace

TEST_CASE("what a stream is given after a recorded use does not delay reuse") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    void* const data = test.allocate();
    test.use(data, test.user, "use");
    test.log.submit(test.user, "later");
    test.memory.deallocate(data);
    check_whole(test.memory);
    test.run_to_the_end_of("use", test.user);
    CHECK(test.is_reused(data));
    CHECK_FALSE(test.log.is_done("later"));
    CHECK(test.counters().frees_reclaimed == 1);
    CHECK(test.counters().pending_free_waits == 0);
  });
}

TEST_CASE("the same with record_stream() waits for what has nothing to do with the block") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    void* const data = test.allocate();
    test.log.submit(test.user, "use");
    test.memory.record_stream(data, test.user);
    test.log.submit(test.user, "later");
    test.memory.deallocate(data);
    test.run_to_the_end_of("use", test.user);
    CHECK_FALSE(test.is_reused(data));
  });
}

TEST_CASE("what a stream held at a recorded use delays reuse, on every stream") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    UseTest test(options);
    const Stream third = test.stream();
    void* const data = test.allocate();
    test.use(data, test.user, "earlier");
    test.memory.deallocate(data);
    CHECK(test.counters().frees_deferred == 1);
    CHECK(test.counters().blocks_pending.current == 1);
    CHECK(test.counters().bytes_active.current == kBytes);
    for (const StreamRef later : {test.own.ref(), third.ref()}) {
      const Allocation block = test.memory.allocate(kBytes, later);
      CHECK(test.apart_or_in_order(data, kBytes, block.data(), kBytes, later));
    }
    CHECK_FALSE(test.log.is_done("earlier"));
    CHECK(test.counters().frees_reclaimed == 0);
    check_whole(test.memory);
  });
}

TEST_CASE("with nothing else left the host waits for the use, and for no later work") {
  UseTest test({}, small_device(64_MiB, sim::Progress::manual));
  void* const data = test.memory.allocate_raw(60_MiB, test.own);
  test.use(data, test.user, "use");
  test.log.submit(test.user, "later");
  test.memory.deallocate(data);
  CHECK(test.memory.allocate(60_MiB, test.own).data() == data);
  CHECK(test.log.is_done("use"));
  CHECK_FALSE(test.log.is_done("later"));
  CHECK(test.counters().pending_free_waits == 1);
}

TEST_CASE("of two recorded uses of a stream the later one counts") {
  UseTest test;
  void* const data = test.allocate();
  test.use(data, test.user, "first");
  test.use(data, test.user, "second");
  test.log.submit(test.user, "later");
  test.memory.deallocate(data);
  test.run_to_the_end_of("first", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("second", test.user);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE("a block used by several streams waits for each use") {
  UseTest test;
  const Stream slow = test.stream();
  void* const data = test.allocate();
  test.use(data, test.user, "quick");
  test.use(data, slow, "slow");
  test.log.submit(slow, "later");
  test.memory.deallocate(data);
  test.run_to_the_end_of("quick", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("slow", slow);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE(
    "record_stream() covers the uses that were recorded before and after, for its stream alone") {
  UseTest test;
  const Stream other = test.stream();
  void* const data = test.allocate();
  test.use(data, other, "other use");
  SUBCASE("before") {
    test.use(data, test.user, "use");
    test.memory.record_stream(data, test.user);
  }
  SUBCASE("after") {
    test.memory.record_stream(data, test.user);
    const std::uint64_t calls = driver_calls(*test.runtime);
    test.use(data, test.user, "use");
    CHECK(driver_calls(*test.runtime) == calls);
  }
  test.log.submit(test.user, "until the free");
  test.log.submit(other, "later");
  test.memory.deallocate(data);
  test.run_to_the_end_of("other use", other);
  test.run_to_the_end_of("use", test.user);
  CHECK_FALSE(test.is_reused(data));
  test.run_to_the_end_of("until the free", test.user);
  CHECK(test.is_reused(data));
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE("a block whose use is over does not wait for later uses of other blocks") {
  UseTest test;
  void* const first = test.allocate();
  void* const second = test.allocate();
  void* const third = test.allocate();
  test.use(first, test.user, "first use");
  test.use(second, test.user, "second use");
  test.log.submit(test.user, "third use");
  test.memory.record_stream(third, test.user);
  for (void* const data : {third, second, first}) test.memory.deallocate(data);
  test.run_to_the_end_of("first use", test.user);
  CHECK(test.is_reused(first));
  CHECK(test.counters().blocks_pending.current == 2);
  test.run_to_the_end_of("second use", test.user);
  CHECK(test.is_reused(second));
  CHECK(test.counters().blocks_pending.current == 1);
  CHECK_FALSE(test.log.is_done("third use"));
}

TEST_CASE("a use that is known to be over defers nothing at the free") {
  UseTest test;
  void* const first = test.allocate();
  void* const second = test.allocate();
  test.use(first, test.user, "first use");
  test.use(second, test.user, "second use");
  test.log.submit(test.user, "later");
  test.memory.deallocate(second);
  test.run_to_the_end_of("second use", test.user);
  CHECK(test.is_reused(second));  // that the second use is over says the same of the first
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.deallocate(first);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.is_reused(first));
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("that one use is over says nothing of a later one") {
  UseTest test;
  void* const first = test.allocate();
  void* const second = test.allocate();
  test.use(first, test.user, "first use");
  test.use(second, test.user, "second use");
  test.memory.deallocate(first);
  test.run_to_the_end_of("first use", test.user);
  CHECK(test.is_reused(first));
  test.memory.deallocate(second);
  CHECK(test.counters().frees_deferred == 2);
  CHECK_FALSE(test.is_reused(second));
}

TEST_CASE("the block's own stream needs no record: no driver call, and nothing is deferred") {
  UseTest test;
  void* const data = test.allocate();
  test.log.submit(test.own, "work");
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.record_use(data, test.own);
  test.memory.deallocate(data);
  CHECK(test.counters().frees_deferred == 0);
  CHECK(test.is_reused(data));
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK_FALSE(test.log.is_done("work"));
}

TEST_CASE("a use costs one event record and one question, and the free of the block nothing") {
  UseTest test;
  for (int round = 0; round < 3; ++round) {  // the first one fills the pool of events
    CAPTURE(round);
    Allocation block = test.memory.allocate(1000, test.own);
    const std::uint64_t creates = test.calls("cuEventCreate");
    const std::uint64_t records = test.calls("cuEventRecord");
    const std::uint64_t questions = test.calls("cuStreamIsCapturing");
    test.log.submit(test.user, "use");
    block.record_use(test.user);
    CHECK(test.calls("cuEventRecord") == records + 1);
    CHECK(test.calls("cuStreamIsCapturing") == questions + 1);
    CHECK(test.calls("cuEventCreate") == creates + (round == 0 ? 1 : 0));
    const std::uint64_t calls = driver_calls(*test.runtime);
    block.reset();
    CHECK(driver_calls(*test.runtime) == calls);
    test.simulator.run_all();
    test.memory.trim();
    CHECK(test.counters().blocks_pending.current == 0);
  }
}

TEST_CASE("a use recorded in one life of a block does not delay its next life") {
  UseTest test;
  void* const data = test.allocate();
  test.use(data, test.user, "use");
  test.memory.deallocate(data);
  test.simulator.run_all();
  void* const again = test.allocate();
  REQUIRE(again == data);
  test.log.submit(test.user, "unrelated");
  test.memory.deallocate(again);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.is_reused(data));
}

TEST_CASE("a use stands where its stream goes away before the block is freed, or after") {
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

TEST_CASE("a use by a stream that is over delays nothing") {
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

TEST_CASE("a use is waited for by whoever is handed the same stream handle later") {
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

TEST_CASE("a stream that is being captured is used as by record_stream()") {
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
  SUBCASE("which the free marks, after the capture") {
    REQUIRE(sim::berth_sim_cuStreamEndCapture(test.user.ref().native(), &graph) == CUDA_SUCCESS);
    test.log.submit(test.user, "until the free");
    block.reset();
    CHECK(test.calls("cuEventRecord") == records + 1);
    CHECK_FALSE(test.is_reused(data));
    test.run_to_the_end_of("until the free", test.user);
    CHECK(test.is_reused(data));
  }
  SUBCASE("which is marked later, where the block is freed in the capture") {
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
    "a use that is over is reclaimed while its stream is captured, and other blocks wait for "
    "that") {
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

TEST_CASE("a use of what is no live block is refused, and so is a stream that cannot mark it") {
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
