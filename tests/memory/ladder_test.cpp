// SPDX-License-Identifier: Apache-2.0
// A request fails only if no memory that is free, cached by any thread, or freed by the callback
// would serve it.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"
#include "support/foreign_stream.hpp"

namespace ladder_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("memory that the pressure callback frees serves the request, on any stream and thread") {
  for (const bool on_other_thread : {false, true}) {
    CAPTURE(on_other_thread);
    std::optional<Allocation> kept;
    DeviceAllocatorOptions options;
    options.limits.bytes_reserved_max = 64_MiB;
    options.on_pressure = [&](std::size_t) {
      if (!kept) return false;
      if (on_other_thread) {
        std::thread([&] { kept.reset(); }).join();
      } else {
        kept.reset();
      }
      return true;
    };
    MemoryTest test(small_device(256_MiB), options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    kept = test.memory.allocate(48_MiB, first);
    CHECK(test.memory.allocate(40_MiB, second).data() != nullptr);
    CHECK(test.counters().out_of_memory == 0);
  }
}

TEST_CASE("free memory of a busy stream and new memory together serve one request") {
  for (const CrossStreamReuse reuse : {CrossStreamReuse::behind_waits, CrossStreamReuse::never}) {
    CAPTURE(int(reuse));
    DeviceAllocatorOptions options;
    options.limits.bytes_reserved_max = 6_MiB;
    options.cross_stream_reuse = reuse;
    MemoryTest test(manual_progress(small_device(64_MiB)), options);
    const Stream first = test.stream();
    const Stream second = test.stream();
    const Stream third = test.stream();
    Allocation freed = test.memory.allocate(1_MiB, third);
    const Allocation live = test.memory.allocate(2_MiB, second);
    Allocation busy = test.memory.allocate(512_KiB, first);
    test.log.submit(first, "work");
    freed.reset();
    busy.reset();
    Allocation taken = test.memory.allocate(512_KiB, second);
    const Allocation also_live = test.memory.allocate(512_KiB, second);
    taken.reset();
    CHECK(test.memory.allocate(3_MiB - 32_KiB, third).data() != nullptr);
    CHECK(test.counters().out_of_memory == 0);
  }
}

TEST_CASE("memory that becomes free because of a soft limit serves the request") {
  for (const bool contiguous : {false, true}) {
    CAPTURE(contiguous);
    DeviceAllocatorOptions options;
    options.virtual_memory = contiguous;
    options.limits.bytes_reserved_soft_max = 10_MiB;
    options.cross_stream_reuse = CrossStreamReuse::never;
    MemoryTest test(small_device(36_MiB), options);
    MemoryPool pool = test.memory.create_pool({.name = "pool", .contiguous = contiguous});
    const Stream first = test.stream();
    const Stream second = test.stream();
    const Allocation live = pool.allocate(1_MiB, first);  // of a segment of 20 MiB
    CHECK(pool.allocate(4_MiB, second).data() != nullptr);
    CHECK(pool.counters().out_of_memory == 0);
  }
}

TEST_CASE("a request returns what its own foreign stream frees in two steps") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  options.segment_bytes = 8_MiB;
  options.limits.bytes_reserved_max = 18_MiB;
  options.cross_stream_reuse = CrossStreamReuse::behind_waits;
  MemoryTest test(manual_progress(small_device(64_MiB)), options);
  const Stream first = test.stream();
  const Stream second = test.stream();
  const StreamRef foreign = disown(test.stream());
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    Allocation block = test.memory.allocate(7_MiB, first);
    test.log.submit(first, "work");
    block.reset();
    const Allocation live = pool.allocate(512_KiB, second);
    message_of(test.memory.try_allocate(11_MiB, foreign), Errc::out_of_memory);
    test.simulator.run_all();
    block = test.memory.allocate(1536_KiB, foreign);
    test.log.submit(foreign, "work");
    block.reset();
    CHECK(test.memory.try_allocate(9_MiB + 512_KiB, foreign).ok());
  }
  test.simulator.run_all();
  test.memory.retire_stream(foreign);
  destroy_disowned(foreign);
}

TEST_CASE("a callback that reports success and frees nothing ends no request too early") {
  for (const CrossStreamReuse reuse : {CrossStreamReuse::behind_waits, CrossStreamReuse::never}) {
    CAPTURE(int(reuse));
    constexpr std::size_t kBlocks = 16;
    int calls = 0;
    DeviceAllocatorOptions options;
    options.cross_stream_reuse = reuse;
    options.on_pressure = [&](std::size_t) { return ++calls > 0; };
    MemoryTest test(manual_progress(small_device(64_MiB)), options);
    const Stream stream = test.stream();
    const Stream user = test.stream();
    std::vector<Allocation> blocks;
    for (std::size_t count = 0; count < kBlocks; ++count)
      blocks.push_back(test.memory.allocate(60_MiB / kBlocks, stream));
    for (Allocation& block : blocks) {
      test.log.submit(user, "use");
      block.record_use(user);
      block.reset();
    }
    CHECK(test.memory.allocate(50_MiB, stream).data() != nullptr);
    CHECK(calls <= static_cast<int>(2 * kBlocks));
    const Allocation live = test.memory.allocate(40_MiB, stream);
    calls = 0;
    message_of(test.memory.try_allocate(40_MiB, stream), Errc::out_of_memory);
    CHECK(calls < 10);
  }
}

TEST_CASE("the pressure callback receives the number of missing bytes") {
  std::size_t missing = 0;
  DeviceAllocatorOptions options;
  options.limits.bytes_reserved_max = 64_MiB;
  options.on_pressure = [&](std::size_t bytes) {
    missing = bytes;
    return false;
  };
  MemoryTest test(small_device(256_MiB), options);
  const Stream stream = test.stream();
  const Allocation live = test.memory.allocate(48_MiB, stream);
  message_of<OutOfMemory>([&] { return test.memory.allocate(40_MiB, stream); });
  CHECK(missing == 24_MiB);
}

TEST_CASE("a failing allocation inside the pressure callback does not call it again") {
  int calls = 0;
  int refused = 0;
  DeviceAllocator* memory = nullptr;
  std::optional<Stream> stream;
  DeviceAllocatorOptions options;
  options.on_pressure = [&](std::size_t bytes) {
    if (++calls > 100) return false;  // rather than without end
    if (!memory->try_allocate(bytes, *stream).ok()) ++refused;
    return false;
  };
  MemoryTest test(small_device(64_MiB), options);
  memory = &test.memory;
  stream = test.stream();
  const Allocation live = test.memory.allocate(48_MiB, *stream);
  message_of<OutOfMemory>([&] { return test.memory.allocate(40_MiB, *stream); });
  CHECK(calls == 1);
  CHECK(refused == 1);
  stream.reset();
}

TEST_CASE("pressure callbacks of two devices that allocate from each other are called once each") {
  sim::Config config = small_device(64_MiB);
  config.devices = 2;
  MemoryTest test(config);
  DeviceAllocator* const memories[] = {&test.memory, &test.runtime->memory(Device::cuda(1))};
  const Stream streams[] = {test.stream(), test.runtime->create_stream(Device::cuda(1))};
  int calls[2] = {};
  for (const int own : {0, 1}) {
    memories[own]->set_on_pressure([&, own, other = 1 - own](std::size_t) {
      if (++calls[own] > 100) return false;  // rather than without end
      message_of(memories[other]->try_allocate(40_MiB, streams[other]), Errc::out_of_memory);
      return false;
    });
  }
  const Allocation live[] = {memories[0]->allocate(48_MiB, streams[0]),
                             memories[1]->allocate(48_MiB, streams[1])};
  message_of<OutOfMemory>([&] { return memories[0]->allocate(40_MiB, streams[0]); });
  CHECK(calls[0] == 1);
  CHECK(calls[1] == 1);
  for (DeviceAllocator* const memory : memories) memory->set_on_pressure({});
}

TEST_CASE(
    "a request that the driver refuses is tried twice, and not as often as there are passes") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  test.simulator.set_device_memory_limit(0, 32_MiB);
  const Allocation live = test.memory.allocate(30_MiB, stream);
  const std::uint64_t before = test.simulator.calls("cuMemCreate");
  message_of<OutOfMemory>([&] { return test.memory.allocate(4_MiB, stream); });
  CHECK(test.simulator.calls("cuMemCreate") == before + 4);  // the second of two granules
}

TEST_CASE("an exception of the pressure callback propagates, or becomes an error of try_allocate") {
  DeviceAllocatorOptions options;
  options.on_pressure = [](std::size_t) -> bool { throw std::runtime_error("spilled\nwrongly"); };
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  const Allocation live = test.memory.allocate(48_MiB, stream);
  CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(40_MiB, stream)), std::runtime_error);
  const std::string message =
      message_of(test.memory.try_allocate(40_MiB, stream), Errc::out_of_memory);
  CHECK(contains(message, "spilled\\x0awrongly"));
  test.memory.validate();
  CHECK(test.memory.allocate(8_MiB, stream).data() != nullptr);
}

TEST_CASE("threads that keep their live bytes within the limit are never refused") {
  DeviceAllocatorOptions options;
  options.limits.bytes_reserved_max = 12_MiB;
  MemoryTest test(small_device(64_MiB), options);
  constexpr int kThreads = 3;
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&] {
      const Stream stream = test.stream();
      for (int round = 0; round < 2000; ++round) {
        const Allocation block = test.memory.allocate(4_MiB, stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(test.counters().out_of_memory == 0);
}

}  // namespace ladder_test
