// SPDX-License-Identifier: Apache-2.0
// Sizes, addresses, ownership and refusals of the device allocator.
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace device_allocator_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string hex(const void* data) {
  return fmt::format("{:x}", address_of(data));
}

}  // namespace

TEST_CASE("blocks are aligned to 512 bytes and rounded up to a multiple of 512") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{511}, 512_KiB - 511, std::size_t{513}, std::size_t{1000},
          1_MiB - 1, 1_MiB, 1_MiB + 1, 2_MiB + 1, 10_MiB - 1, 20_MiB + 3, 100_MiB - 7, 1_GiB + 1}) {
      CAPTURE(bytes);
      const Allocation block = test.memory.allocate(bytes, stream);
      CHECK(block.bytes() == bytes);
      CHECK(address_of(block.data()) % kBlockAlignment == 0);
      CHECK(test.counters().bytes_requested.current == bytes);
      CHECK(test.counters().bytes_allocated.current == (bytes + 511) / 512 * 512);
      check_whole(test.memory);
    }
  });
}

TEST_CASE("live blocks do not overlap") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    std::vector<Allocation> blocks;
    for (std::size_t index = 0; index < 60; ++index)
      blocks.push_back(test.memory.allocate(1 + index * index * 1777, stream));
    for (std::size_t a = 0; a < blocks.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        CHECK_FALSE(
            overlap(blocks[a].data(), blocks[a].bytes(), blocks[b].data(), blocks[b].bytes()));
      }
    }
    check_whole(test.memory);
  });
}

TEST_CASE("a request of 0 bytes gives an empty allocation without a driver call or counters") {
  MemoryTest test;
  const Stream stream = test.stream();
  const std::uint64_t calls = driver_calls(*test.runtime);
  const Allocation block = test.memory.allocate(0, stream);
  CHECK_FALSE(block);
  CHECK(block.data() == nullptr);
  CHECK(block.bytes() == 0);
  CHECK(test.memory.allocate_raw(0, stream) == nullptr);
  Result<Allocation> probed = test.memory.try_allocate(0, stream);
  REQUIRE(probed.ok());
  CHECK_FALSE(probed.value());
  block.record_stream(stream);
  test.memory.deallocate(nullptr);
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(same_levels(test.counters(), MemoryCounters{}));
  check_whole(test.memory);
}

TEST_CASE("an impossible size is out of memory, and the next call succeeds") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB), options);
    const Stream stream = test.stream();
    const Allocation live = test.memory.allocate(3_MiB, stream);
    const std::uint64_t reserved = test.counters().bytes_reserved.current;
    std::uint64_t failures = 0;
    for (const std::size_t bytes :
         {SIZE_MAX, SIZE_MAX - 510, SIZE_MAX - 511, SIZE_MAX - 2_MiB, std::size_t{1} << 63,
          (std::size_t{1} << 63) + 1, std::size_t{1} << 62, std::size_t{1} << 48,
          std::size_t{1} << 40, 64_MiB + 1, 64_MiB}) {
      CAPTURE(bytes);
      const std::string message =
          message_of<OutOfMemory>([&] { return test.memory.allocate(bytes, stream); });
      CHECK(contains(message, format_bytes(bytes)));
      CHECK(contains(message, format_bytes(bytes > 64_MiB ? 64_MiB : 3_MiB)));
      const Result<Allocation> probed = test.memory.try_allocate(bytes, stream);
      CHECK_FALSE(message_of(probed, Errc::out_of_memory).empty());
      failures += 2;
      CHECK(test.counters().out_of_memory == failures);
      CHECK(test.counters().bytes_reserved.current <= reserved);
      CHECK(test.counters().bytes_requested.current == 3_MiB);
      check_whole(test.memory);
      const Allocation next = test.memory.allocate(1000, stream);
      CHECK(next);
    }
  });
}

TEST_CASE("an allocation owns its block once, wherever it moves, until released or reset") {
  MemoryTest test;
  const Stream stream = test.stream();
  Allocation first = test.memory.allocate(1000, stream);
  void* const data = first.data();
  Allocation second = std::move(first);
  CHECK_FALSE(first);
  CHECK(first.bytes() == 0);
  CHECK(second.data() == data);
  CHECK(second.bytes() == 1000);
  CHECK(test.counters().blocks_allocated.current == 1);

  first = test.memory.allocate(2000, stream);
  second = std::move(first);
  CHECK(test.counters().blocks_allocated.current == 1);
  CHECK(test.counters().frees == 1);
  CHECK(second.bytes() == 2000);
  Allocation& same = second;
  second = std::move(same);
  CHECK(second.bytes() == 2000);

  void* const released = second.release();
  CHECK_FALSE(second);
  CHECK(test.counters().blocks_allocated.current == 1);
  test.memory.deallocate(released);
  CHECK(test.counters().blocks_allocated.current == 0);

  Allocation third = test.memory.allocate(1, stream);
  third.reset();
  CHECK_FALSE(third);
  third.reset();
  CHECK(test.counters().frees == 3);
  check_whole(test.memory);
}

TEST_CASE("try_allocate returns the same results and errors as allocate") {
  MemoryTest test;
  const Stream stream = test.stream();
  Result<Allocation> block = test.memory.try_allocate(1000, stream);
  REQUIRE(block.ok());
  CHECK(block.value().bytes() == 1000);
  CHECK(test.counters().allocations == 1);
}

TEST_CASE("a stream of another device is refused, and nothing changes") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  const Stream here = test.stream();
  const Stream there = test.runtime->create_stream(Device::cuda(1));
  const Allocation block = test.memory.allocate(1000, here);
  const MemoryCounters before = test.counters();
  const std::string message =
      message_of<InvalidArgument>([&] { return test.memory.allocate(1000, there); });
  CHECK(contains(message, "cuda:0"));
  CHECK(contains(message, "cuda:1"));
  message_of(test.memory.try_allocate(1000, there), Errc::invalid_argument);
  message_of<InvalidArgument>(
      [&] { return test.memory.allocate(1, test.runtime->default_stream(Device::cuda(1))); });
  message_of<InvalidArgument>([&] { block.record_stream(there); });
  message_of<InvalidArgument>(
      [&] { block.record_stream(test.runtime->default_stream(Device::cuda(1))); });
  for (Allocator* const memory :
       {static_cast<Allocator*>(&test.memory),
        static_cast<Allocator*>(&test.runtime->pinned_memory()),
        static_cast<Allocator*>(&test.runtime->host_memory())}) {  // null: no effect
    memory->record_stream(nullptr, there);
    memory->record_use(nullptr, StreamRef::per_thread_default(here.ref().context()));
  }
  test.memory.deallocate(nullptr, there);
  CHECK(same_levels(test.counters(), before));
  check_whole(test.memory);
}

TEST_CASE("a stream of another Runtime is refused, and nothing changes") {
  MemoryTest test;
  Runtime other({.driver = "sim"});
  const Stream foreign = other.create_stream(Device::cuda(0));
  const Allocation block = test.memory.allocate(1000, test.stream());
  const MemoryCounters before = test.counters();
  message_of<InvalidArgument>([&] { return test.memory.allocate(1000, foreign); });
  message_of<InvalidArgument>([&] { block.record_stream(foreign); });
  CHECK(same_levels(test.counters(), before));
  check_whole(test.memory);
}

TEST_CASE("a pointer that is no live block is refused, and nothing changes") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    sim::Config config;
    config.devices = 2;
    MemoryTest test(config, options);
    Runtime& runtime = *test.runtime;
    const Stream stream = test.stream();
    const Allocation live = test.memory.allocate(100'000, stream);
    const Allocation small = test.memory.allocate(700, stream);
    const Stream there = runtime.create_stream(Device::cuda(1));
    const Allocation elsewhere = runtime.memory(Device::cuda(1)).allocate(1000, there);
    const Allocation pinned = runtime.pinned_memory().allocate(1000);
    CUdeviceptr raw = 0;
    {
      const DeviceGuard guard(runtime.devices(), Device::cuda(0));
      REQUIRE(sim::berth_sim_cuMemAlloc(&raw, 1_MiB) == CUDA_SUCCESS);
    }
    void* freed = test.memory.allocate_raw(5000, stream);
    test.memory.deallocate(freed);

    int on_stack = 0;
    const auto on_heap = std::make_unique<int>(0);
    auto* const start = static_cast<char*>(live.data());
    const std::vector<void*> strangers = {
        &on_stack, on_heap.get(), reinterpret_cast<void*>(1), reinterpret_cast<void*>(UINTPTR_MAX),
        reinterpret_cast<void*>(raw), elsewhere.data(), pinned.data(), freed,
        // inside, at a multiple of the alignment and not, and one past the end
        start + 1, start + 512, start + 99'999, start + 100'352,
        static_cast<char*>(small.data()) + 512, static_cast<char*>(small.data()) - 1};
    for (void* const stranger : strangers) {
      if (stranger == small.data() || stranger == live.data()) continue;  // one past a neighbor
      CAPTURE(hex(stranger));
      const MemoryCounters before = test.counters();
      CHECK(contains(message_of<InvalidArgument>([&] { test.memory.deallocate(stranger); }),
                     hex(stranger)));
      CHECK(contains(
          message_of<InvalidArgument>([&] { test.memory.record_stream(stranger, stream); }),
          hex(stranger)));
      CHECK(same_levels(test.counters(), before));
      check_whole(test.memory);
      const Allocation next = test.memory.allocate(256, stream);
      CHECK(test.counters().blocks_allocated.current == before.blocks_allocated.current + 1);
    }
    const DeviceGuard guard(runtime.devices(), Device::cuda(0));
    REQUIRE(sim::berth_sim_cuMemFree(raw) == CUDA_SUCCESS);
  });
}

TEST_CASE("a double free throws, whatever the state of the memory") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Stream other = test.stream();
    const auto freed_twice = [&](void* data) {
      const MemoryCounters before = test.counters();
      message_of<InvalidArgument>([&] { test.memory.deallocate(data); });
      CHECK(same_levels(test.counters(), before));
      check_whole(test.memory);
    };
    void* const a = test.memory.allocate_raw(4_MiB, stream);
    void* const b = test.memory.allocate_raw(4_MiB, stream);
    test.memory.deallocate(b);
    freed_twice(b);
    test.memory.deallocate(a);  // b's memory may be part of a larger free block now
    freed_twice(a);
    freed_twice(b);
    // Recorded: freed, but awaiting an event or just past it.
    void* const c = test.memory.allocate_raw(1_MiB, stream);
    test.memory.record_stream(c, other);
    test.memory.deallocate(c);
    freed_twice(c);
    test.memory.trim();  // the memory is the driver's again
    CHECK(test.counters().bytes_reserved.current == 0);
    freed_twice(a);
    freed_twice(b);
    freed_twice(c);
  });
}

TEST_CASE("owns() tells whether memory belongs to the allocator, without a driver call") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Allocation pinned = test.runtime->pinned_memory().allocate(1000);
    void* const data = test.memory.allocate_raw(1_MiB, stream);
    int on_stack = 0;
    const std::uint64_t calls = driver_calls(*test.runtime);
    CHECK(test.memory.owns(data));
    CHECK(test.memory.owns(static_cast<char*>(data) + 1_MiB - 1));
    CHECK_FALSE(test.memory.owns(nullptr));
    CHECK_FALSE(test.memory.owns(&on_stack));
    CHECK_FALSE(test.memory.owns(pinned.data()));
    CHECK_FALSE(test.memory.owns(reinterpret_cast<void*>(UINTPTR_MAX)));
    test.memory.deallocate(data);
    CHECK(test.memory.owns(data));
    CHECK(driver_calls(*test.runtime) == calls);
    test.memory.trim();
    CHECK_FALSE(test.memory.owns(data));
  });
}

TEST_CASE("physical memory comes in granules of the device's minimum, or of the option") {
  for (const std::size_t granule : {std::size_t{0}, 2_MiB, 8_MiB, 32_MiB}) {
    CAPTURE(granule);
    DeviceAllocatorOptions options;
    options.granule_bytes = granule;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const std::size_t unit = granule == 0 ? 2_MiB : granule;
    const Allocation small = test.memory.allocate(1, stream);
    CHECK(test.counters().bytes_reserved.current == unit);
    const Allocation large = test.memory.allocate(3 * unit, stream);
    CHECK(test.counters().bytes_reserved.current == 4 * unit);
    CHECK(test.simulator.device_bytes_used(0) == 4 * unit);
    CHECK(driver_calls(*test.runtime, "cuMemAlloc") == 0);
    check_whole(test.memory);
  }
}

TEST_CASE("options out of range are refused by name") {
  const sim::Simulator simulator{sim::Config{}};
  const auto refusal = [](DeviceAllocatorOptions device_allocator) {
    RuntimeOptions options = memory_options(std::move(device_allocator));
    options.driver = "sim";
    return message_of<InvalidArgument>([&] {
      Runtime runtime(options);
      return &runtime.memory(Device::cuda(0));
    });
  };
  for (const std::size_t granule : {std::size_t{1}, std::size_t{512}, 1_MiB, 3_MiB, 6_MiB,
                                    2_MiB + 1, 4_GiB, std::size_t{1} << 63}) {
    CAPTURE(granule);
    DeviceAllocatorOptions options;
    options.granule_bytes = granule;
    CHECK(contains(refusal(options), "granule_bytes"));
    CHECK(contains(refusal(options), std::has_single_bit(granule)
                                         ? "accepted: 0 or a power of two from 2097152"
                                         : "accepted: 0 or a power of two"));
  }
  CHECK(contains(refusal({.cross_stream_reuse = static_cast<CrossStreamReuse>(77)}),
                 "cross_stream_reuse is 77"));
  for (const std::size_t segment : {std::size_t{0}, std::size_t{512}, 2_MiB - 1}) {
    CAPTURE(segment);
    DeviceAllocatorOptions options;
    options.virtual_memory = false;
    options.segment_bytes = segment;
    CHECK(contains(refusal(options), "segment_bytes"));
  }
}

TEST_CASE("without virtual memory, small requests share segments and large ones have their own") {
  for (const std::size_t segment : {20_MiB, 8_MiB, 2_MiB}) {
    CAPTURE(segment);
    DeviceAllocatorOptions options;
    options.virtual_memory = false;
    options.segment_bytes = segment;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Allocation first = test.memory.allocate(segment / 4, stream);
    const Allocation second = test.memory.allocate(segment / 2 - 512, stream);
    const Allocation tiny = test.memory.allocate(1, stream);
    CHECK(test.simulator.calls("cuMemAlloc") == 1);
    CHECK(test.counters().bytes_reserved.current == segment);
    CHECK(test.counters().segments_mapped == 1);
    const Allocation half = test.memory.allocate(segment / 2, stream);
    CHECK(test.simulator.calls("cuMemAlloc") == 2);
    CHECK(test.memory.snapshot().segments.size() == 2);
    const Allocation twice = test.memory.allocate(2 * segment, stream);
    CHECK(test.simulator.calls("cuMemAlloc") == 3);
    CHECK(test.memory.snapshot().segments.size() == 3);
    CHECK(test.counters().bytes_reserved.current < segment + segment + 3 * segment);
    CHECK(driver_calls(*test.runtime, "cuMemCreate") == 0);
    check_whole(test.memory);
  }
}

TEST_CASE("a device that cannot map memory gets segments from cuMemAlloc") {
  sim::Config config;
  config.vmm = false;
  MemoryTest test(config);
  const Stream stream = test.stream();
  const Allocation small = test.memory.allocate(1000, stream);
  const Allocation large = test.memory.allocate(100_MiB, stream);
  CHECK(small);
  CHECK(large);
  CHECK(test.simulator.live().allocations == 2);
  check_whole(test.memory);
}

TEST_CASE("the destructor of a Runtime reports live blocks and returns their memory") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    test.errors_expected = true;
    {
      const Stream stream = test.stream();
      CHECK(test.memory.allocate_raw(1000, stream) != nullptr);
      CHECK(test.memory.allocate_raw(30_MiB, stream) != nullptr);
      test.log.submit(stream, "work");
    }
    test.runtime.reset();
    CHECK_FALSE(test.reports.all().empty());
    CHECK(test.reports.mention("cuda:0"));
    CHECK(test.log.is_done("work"));
    CHECK(test.simulator.live() == sim::Live{});
    CHECK(test.simulator.device_bytes_used(0) == 0);
  });
}

TEST_CASE(
    "the destructor of a Runtime without live blocks returns all memory and reports nothing") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    {
      const Stream stream = test.stream();
      const Stream other = test.stream();
      Allocation block = test.memory.allocate(1000, stream);
      const Allocation large = test.memory.allocate(30_MiB, stream);
      test.log.submit(stream, "work");
      test.log.submit(other, "other work");
      block.record_stream(other);
      block.reset();
    }
    test.runtime.reset();
    CHECK(test.reports.all().empty());
    CHECK(test.simulator.live() == sim::Live{});
    CHECK(test.simulator.device_bytes_used(0) == 0);
  });
}

TEST_CASE("two devices have separate allocators and memory") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  DeviceAllocator& second = test.runtime->memory(Device::cuda(1));
  CHECK(&second != &test.memory);
  CHECK(&test.runtime->memory(Device::cuda(1)) == &second);
  const Stream there = test.runtime->create_stream(Device::cuda(1));
  const Allocation block = second.allocate(1_MiB, there);
  CHECK(test.simulator.device_bytes_used(1) >= 1_MiB);
  CHECK(test.simulator.device_bytes_used(0) == 0);
  CHECK_FALSE(test.memory.owns(block.data()));
  CHECK(second.snapshot().allocator == "cuda:1");
  message_of<InvalidArgument>([&] { return &test.runtime->memory(Device::cpu()); });
  message_of<InvalidArgument>([&] { return &test.runtime->memory(Device::cuda(2)); });
}

}  // namespace device_allocator_contract_test
