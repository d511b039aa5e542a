// SPDX-License-Identifier: Apache-2.0
// The allocator of page-locked host memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "pinned/pinned_fixture.hpp"

namespace pinned_allocator_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config two_devices(sim::Progress progress) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

}  // namespace

TEST_CASE("pinned memory is host memory that every device may copy from and to") {
  PinnedTest test(two_devices(sim::Progress::eager));
  const Allocation block = test.memory.allocate(100'000);
  auto* const bytes = static_cast<unsigned char*>(block.data());
  for (std::size_t index = 0; index < block.bytes(); ++index)
    bytes[index] = static_cast<unsigned char>(index * 7);
  for (const int device : {0, 1}) {
    CAPTURE(device);
    const Stream stream = test.stream(device);
    const Allocation there = test.runtime->memory(Device::cuda(device)).allocate(100'000, stream);
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(device));
    REQUIRE(sim::berth_sim_cuMemcpyAsync(address_of(there.data()), address_of(bytes), 100'000,
                                         stream.ref().native()) == CUDA_SUCCESS);
    stream.ref().sync();
    const auto content = test.simulator.peek(address_of(there.data()), 100'000);
    CHECK(std::equal(content.begin(), content.end(), bytes, bytes + 100'000));
    CHECK(content.size() == 100'000);
  }
}

TEST_CASE("a request for 0 bytes of pinned memory gives an empty allocation and counts nothing") {
  PinnedTest test;
  const Allocation block = test.memory.allocate(0);
  CHECK_FALSE(block);
  CHECK(test.memory.allocate_raw(0) == nullptr);
  test.memory.deallocate(nullptr);
  CHECK(same_levels(test.counters(), MemoryCounters{}));
  CHECK(test.simulator.live().host_registrations == 0);
  check_whole(test.memory);
}

TEST_CASE("the size of a large pinned block is rounded up to pages only") {
  PinnedTest test;
  for (const std::size_t bytes :
       {8_MiB, 8_MiB + 1, 9_MiB + 4095, 16_MiB + 4096, 33_MiB + 1, 64_MiB - 1, 65_MiB + 12'345}) {
    CAPTURE(bytes);
    test.memory.trim();
    const Allocation block = test.memory.allocate(bytes);
    const std::uint64_t pages = (bytes + 4095) / 4096 * 4096;
    CHECK(test.counters().bytes_reserved.current == pages);
    CHECK(test.counters().bytes_requested.current == bytes);
    CHECK(test.counters().bytes_allocated.current <= pages);
    check_whole(test.memory);
  }
}

TEST_CASE("small pinned blocks share segments, without waste to the next power of two") {
  PinnedTest test;
  std::vector<Allocation> blocks;
  for (int index = 0; index < 100; ++index) blocks.push_back(test.memory.allocate(100'001));
  CHECK(test.counters().bytes_reserved.current == 16_MiB);
  CHECK(test.simulator.live().host_registrations == 1);
  // Powers of two would take 131,072 bytes for each.
  CHECK(test.counters().bytes_allocated.current <= 100 * 101'000);
  check_whole(test.memory);
}

TEST_CASE("segment_bytes sets the size of shared segments and the maximum of blocks in them") {
  PinnedAllocatorOptions options;
  options.segment_bytes = 1_MiB;
  PinnedTest test({}, options);
  const Allocation small = test.memory.allocate(1000);
  CHECK(test.counters().bytes_reserved.current == 1_MiB);
  const Allocation below = test.memory.allocate(512_KiB - 4096);
  CHECK(test.counters().bytes_reserved.current == 1_MiB);
  const Allocation above = test.memory.allocate(600_KiB);
  CHECK(test.counters().bytes_reserved.current == 1_MiB + 600_KiB);
  check_whole(test.memory);
}

TEST_CASE("pinned options out of range are refused by name") {
  const sim::Simulator simulator{sim::Config{}};
  for (const std::size_t segment : {std::size_t{0}, std::size_t{4096}, 64_KiB - 1, 1_GiB + 1}) {
    CAPTURE(segment);
    PinnedAllocatorOptions pinned;
    pinned.segment_bytes = segment;
    RuntimeOptions options = pinned_options(pinned);
    options.driver = "sim";
    CHECK(contains(message_of<InvalidArgument>([&] {
                     Runtime runtime(options);
                     return &runtime.pinned_memory();
                   }),
                   "segment_bytes"));
  }
}

TEST_CASE("a freed pinned block is reusable at once, without a driver call, with work pending") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, 1_MiB, 20_MiB}) {
    CAPTURE(bytes);
    PinnedTest test(manual_progress());
    const Stream stream = test.stream();
    void* const first = test.memory.allocate_raw(bytes);
    test.log.submit(stream, "work");
    const std::uint64_t calls = driver_calls(*test.runtime);
    test.memory.deallocate(first);
    const Allocation second = test.memory.allocate(bytes);
    CHECK(second.data() == first);
    CHECK(driver_calls(*test.runtime) == calls);
    CHECK(test.counters().frees_deferred == 0);
    CHECK_FALSE(test.log.is_done("work"));
    check_whole(test.memory);
  }
}

TEST_CASE("a pinned block that streams were recorded for is not reused before their work is done") {
  PinnedTest test(two_devices(sim::Progress::manual));
  const Stream here = test.stream(0);
  const Stream there = test.stream(1);
  void* const a = test.memory.allocate_raw(20_MiB);
  test.log.submit(here, "here");
  test.log.submit(there, "there");
  test.memory.record_stream(a, here);
  test.memory.record_stream(a, here);
  test.memory.record_stream(a, there);
  test.memory.deallocate(a);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.counters().blocks_pending.current == 1);
  CHECK(test.counters().bytes_active.current == 20_MiB);
  check_whole(test.memory);

  const Allocation b = test.memory.allocate(20_MiB);
  CHECK_FALSE(overlap(a, 20_MiB, b.data(), 20_MiB));
  here.ref().sync();
  const Allocation c = test.memory.allocate(20_MiB);
  CHECK_FALSE(overlap(a, 20_MiB, c.data(), 20_MiB));
  CHECK_FALSE(test.log.is_done("there"));
  there.ref().sync();
  const Allocation d = test.memory.allocate(20_MiB);
  CHECK(d.data() == a);
  CHECK(test.counters().frees_reclaimed == 1);
  check_whole(test.memory);
}

TEST_CASE("one slow stream delays the reuse of its own pinned blocks only") {
  PinnedTest test(manual_progress());
  const Stream slow = test.stream();
  const Stream quick = test.stream();
  void* const held = test.memory.allocate_raw(20_MiB);
  void* const released = test.memory.allocate_raw(20_MiB);
  test.log.submit(slow, "slow");
  test.memory.record_stream(held, slow);
  test.memory.record_stream(released, quick);
  test.memory.deallocate(held);
  test.memory.deallocate(released);
  quick.ref().sync();
  const Allocation again = test.memory.allocate(20_MiB);
  CHECK(again.data() == released);
  CHECK_FALSE(test.log.is_done("slow"));
}

TEST_CASE("find_block knows the live block around a pointer") {
  PinnedTest test;
  Allocation small = test.memory.allocate(5000);
  const Allocation large = test.memory.allocate(20_MiB);
  const auto* const start = static_cast<const std::byte*>(small.data());
  CHECK(test.memory.find_block(start) == small.data());
  CHECK(test.memory.find_block(start + 1) == small.data());
  CHECK(test.memory.find_block(start + 4999) == small.data());
  const auto* const inside = static_cast<const std::byte*>(large.data()) + 20_MiB - 1;
  CHECK(test.memory.find_block(inside) == large.data());
  CHECK(test.memory.find_block(inside + 1) != large.data());
  int on_stack = 0;
  CHECK(test.memory.find_block(&on_stack) == nullptr);
  CHECK(test.memory.find_block(nullptr) == nullptr);
  CHECK(test.memory.find_block(reinterpret_cast<void*>(UINTPTR_MAX)) == nullptr);
  small.reset();
  CHECK(test.memory.find_block(start) == nullptr);
  CHECK(test.memory.find_block(start + 100) == nullptr);
}

TEST_CASE("a pointer that is no live pinned block is refused, and nothing changes") {
  PinnedTest test;
  Runtime& runtime = *test.runtime;
  const Stream stream = test.stream();
  const Allocation live = test.memory.allocate(100'000);
  const Allocation on_device = runtime.memory(Device::cuda(0)).allocate(1000, stream);
  void* const freed = test.memory.allocate_raw(30'000);
  test.memory.deallocate(freed);
  const auto on_heap = std::make_unique<int>(0);
  auto* const start = static_cast<char*>(live.data());
  for (void* const stranger :
       {static_cast<void*>(on_heap.get()), reinterpret_cast<void*>(1), on_device.data(), freed,
        static_cast<void*>(start + 1), static_cast<void*>(start + 4096),
        static_cast<void*>(start + 99'999)}) {
    CAPTURE(stranger);
    const MemoryCounters before = test.counters();
    message_of<InvalidArgument>([&] { test.memory.deallocate(stranger); });
    message_of<InvalidArgument>([&] { test.memory.record_stream(stranger, stream); });
    CHECK(same_levels(test.counters(), before));
    check_whole(test.memory);
    CHECK(test.memory.allocate(100));
  }
  void* const large = test.memory.allocate_raw(20_MiB);
  test.memory.deallocate(large);
  test.memory.trim();
  message_of<InvalidArgument>([&] { test.memory.deallocate(large); });
  message_of<InvalidArgument>([&] { test.memory.deallocate(freed); });
  check_whole(test.memory);
}

TEST_CASE("the pinned limit bounds what is pinned; cached memory is released before a refusal") {
  PinnedAllocatorOptions options;
  options.bytes_reserved_max = 64_MiB;
  PinnedTest test({}, options);
  Allocation a = test.memory.allocate(40_MiB);
  const std::string message = message_of<OutOfMemory>([&] { return test.memory.allocate(30_MiB); });
  CHECK(contains(message, format_bytes(30_MiB)));
  CHECK(contains(message, format_bytes(64_MiB)));
  CHECK(test.counters().out_of_memory == 1);
  CHECK(test.counters().limit_rejections >= 1);
  check_whole(test.memory);
  a.reset();
  const Allocation b = test.memory.allocate(60_MiB);
  CHECK(b);
  CHECK(test.counters().bytes_reserved.peak <= 64_MiB);
  check_whole(test.memory);
}

TEST_CASE("host memory that cannot be pinned is out of memory, and the next call works") {
  sim::Config config;
  config.host_memory = 48_MiB;
  PinnedTest test(config);
  const Allocation live = test.memory.allocate(20_MiB);
  for (const std::size_t bytes : {40_MiB, std::size_t{1} << 40, std::size_t{1} << 63, SIZE_MAX,
                                  SIZE_MAX - 4095, SIZE_MAX - 4096}) {
    CAPTURE(bytes);
    CHECK(contains(message_of<OutOfMemory>([&] { return test.memory.allocate(bytes); }),
                   format_bytes(bytes)));
    message_of(test.memory.try_allocate(bytes), Errc::out_of_memory);
    check_whole(test.memory);
  }
  CHECK(test.memory.allocate(1000));
  CHECK(test.memory.allocate(20_MiB));
}

TEST_CASE("at the host's limit cached and deferred pinned memory is reclaimed") {
  sim::Config config = manual_progress();
  config.host_memory = 64_MiB;
  PinnedTest test(config);
  const Stream stream = test.stream();
  {
    const Allocation cached = test.memory.allocate(20_MiB);
    const Allocation deferred = test.memory.allocate(40_MiB);
    deferred.record_stream(stream);
    test.log.submit(stream, "work");
  }
  const Allocation block = test.memory.allocate(60_MiB);
  CHECK(block);
  CHECK(test.log.is_done("work"));
  CHECK(test.counters().out_of_memory == 0);
  check_whole(test.memory);
}

TEST_CASE("trim gives pinned memory back, as much as it is told to, and waits for its users") {
  PinnedTest test(manual_progress());
  const Stream stream = test.stream();
  {
    const Allocation a = test.memory.allocate(20_MiB);
    const Allocation b = test.memory.allocate(30_MiB);
    const Allocation c = test.memory.allocate(1000);
  }
  CHECK(test.counters().bytes_reserved.current == 66_MiB);
  CHECK(test.memory.trim(SIZE_MAX) == 0);
  const std::size_t given_back = test.memory.trim(50_MiB);
  CHECK(test.counters().bytes_reserved.current == 66_MiB - given_back);
  CHECK(test.counters().bytes_reserved.current <= 50_MiB);
  CHECK(test.counters().bytes_reserved.current > 0);
  const Allocation live = test.memory.allocate(1000);
  test.memory.trim();
  CHECK(test.counters().bytes_reserved.current == 20_MiB);
  CHECK(test.simulator.live().host_registrations == 1);
  check_whole(test.memory);
}

TEST_CASE("a recorded stream may be destroyed before the pinned block is freed") {
  PinnedTest test(manual_progress());
  void* const a = test.memory.allocate_raw(20_MiB);
  {
    const Stream doomed = test.stream();
    test.memory.record_stream(a, doomed);
    test.log.submit(doomed, "work");
  }
  test.memory.deallocate(a);
  check_whole(test.memory);
  const Allocation b = test.memory.allocate(20_MiB);
  CHECK((b.data() != a || test.log.is_done("work")));
  test.simulator.run_all();
  check_whole(test.memory);
}

TEST_CASE("pinned memory of a foreign stream is waited for after the stream was retired") {
  PinnedTest test(manual_progress());
  Runtime& runtime = *test.runtime;
  CUstream foreign = nullptr;
  {
    const DeviceGuard guard(runtime.devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuStreamCreateWithPriority(&foreign, CU_STREAM_NON_BLOCKING, 0) ==
            CUDA_SUCCESS);
  }
  const StreamRef ref = runtime.stream(Device::cuda(0), foreign);
  void* const a = test.memory.allocate_raw(20_MiB);
  test.memory.record_stream(a, ref);
  test.log.submit(ref, "work");
  test.memory.retire_stream(ref);
  {
    const DeviceGuard guard(runtime.devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuStreamDestroy(foreign) == CUDA_SUCCESS);
  }
  test.memory.deallocate(a);
  const Allocation b = test.memory.allocate(20_MiB);
  CHECK((b.data() != a || test.log.is_done("work")));
  check_whole(test.memory);
}

TEST_CASE("a pinned snapshot names no stream and adds up") {
  PinnedTest test(manual_progress());
  const Stream stream = test.stream();
  const Allocation a = test.memory.allocate(1000);
  {
    const Allocation pending = test.memory.allocate(3000);
    pending.record_stream(stream);
    test.log.submit(stream, "work");
  }
  const MemorySnapshot snapshot = test.memory.snapshot();
  CHECK(snapshot.allocator == "pinned");
  REQUIRE(snapshot.segments.size() == 1);
  std::size_t allocated = 0;
  std::size_t pending = 0;
  for (const BlockInfo& block : snapshot.segments[0].blocks) {
    CHECK(block.stream == std::nullopt);
    allocated += block.state == BlockState::allocated ? 1 : 0;
    pending += block.state == BlockState::pending ? 1 : 0;
  }
  CHECK(allocated == 1);
  CHECK(pending == 1);
  CHECK(snapshot.largest_free_block_bytes > 15_MiB);
  check_whole(test.memory);
}

TEST_CASE("pinned peaks reset to the current level") {
  PinnedTest test;
  { const Allocation gone = test.memory.allocate(20_MiB); }
  test.memory.trim();
  CHECK(test.counters().bytes_reserved.peak == 20_MiB);
  test.memory.reset_peaks();
#define BERTH_FIELD(name, help) \
  CHECK_MESSAGE(test.counters().name.peak == test.counters().name.current, #name);
  BERTH_MEMORY_GAUGES(BERTH_FIELD)
#undef BERTH_FIELD
}

TEST_CASE("a Runtime that ends with pinned blocks live leaves nothing pinned") {
  PinnedTest test;
  test.errors_expected = true;
  CHECK(test.memory.allocate_raw(1000) != nullptr);
  CHECK(test.memory.allocate_raw(20_MiB) != nullptr);
  test.runtime.reset();
  CHECK(test.simulator.live().host_registrations == 0);
  CHECK(test.reports.mention("pinned"));
}

TEST_CASE("a stream of another Runtime is refused for pinned memory, and nothing changes") {
  PinnedTest test;
  Runtime other({.driver = "sim"});
  const Stream others = other.create_stream(Device::cuda(0));
  const Allocation block = test.memory.allocate(1000);
  std::vector<std::byte> own(4096);
  const HostRegistration registered = test.memory.register_memory(own.data(), own.size());
  const MemoryCounters before = test.counters();
  const auto refuses = [](const auto& call) {
    CHECK(contains(message_of<InvalidArgument>(call), "a stream of cuda:0 of another Runtime"));
  };
  for (void* const data : {block.data(), static_cast<void*>(own.data())}) {
    refuses([&] { test.memory.record_stream(data, others); });
    refuses([&] { test.memory.record_use(data, others); });
  }
  refuses([&] { test.memory.keep_for_graph(block.data(), others); });
  CHECK(same_levels(test.counters(), before));
  refuses([&] { static_cast<void>(test.memory.allocate_raw(1000, others)); });
  CHECK(test.counters().blocks_allocated.current == 1);
  CHECK(test.counters().blocks_pending.current == 0);
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.retire_stream(others);
  CHECK(driver_calls(*test.runtime) == calls);
  check_whole(test.memory);
}

TEST_CASE("two threads share the pinned allocator, and no two live blocks overlap") {
  sim::Config config;
  config.progress = sim::Progress::random;
  PinnedTest test(config);
  const Stream stream = test.stream();
  std::vector<int> corrupted(2);
  const auto hammer = [&](unsigned thread) {
    std::minstd_rand random(thread + 1);
    std::vector<Allocation> blocks;
    const auto check_and_free = [&](std::size_t index) {
      std::swap(blocks[index], blocks.back());
      const auto* const bytes = static_cast<const unsigned char*>(blocks.back().data());
      const auto mark = static_cast<unsigned char>(thread + 1);
      if (bytes[0] != mark || bytes[blocks.back().bytes() - 1] != mark) ++corrupted[thread];
      if (random() % 4 == 0) blocks.back().record_stream(stream);
      blocks.pop_back();
    };
    for (int round = 0; round < 1500; ++round) {
      if (blocks.size() < 24 && random() % 2 == 0) {
        const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 1_MiB : 8_KiB);
        blocks.push_back(test.memory.allocate(bytes));
        auto* const data = static_cast<unsigned char*>(blocks.back().data());
        data[0] = data[bytes - 1] = static_cast<unsigned char>(thread + 1);
      } else if (!blocks.empty()) {
        check_and_free(random() % blocks.size());
      }
    }
    while (!blocks.empty()) check_and_free(0);
  };
  std::thread other([&] { hammer(1); });
  hammer(0);
  other.join();
  CHECK(corrupted[0] + corrupted[1] == 0);
  CHECK(test.counters().blocks_allocated.current == 0);
  check_whole(test.memory);
}

}  // namespace pinned_allocator_contract_test
