// SPDX-License-Identifier: Apache-2.0
// Memory that runs short: the pressure callback, and the out-of-memory ladder, which searches again
// after every rung, so that no request fails that would succeed when repeated.
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace pressure_contract_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a pending free is waited for when nothing else is left, and the earliest first") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream own = test.stream();
    const Stream early = test.stream();
    const Stream late = test.stream();
    void* const a = test.memory.allocate_raw(24_MiB, own);
    void* const b = test.memory.allocate_raw(24_MiB, own);
    test.log.submit(late, "late");
    test.log.submit(early, "early");
    test.memory.record_stream(a, early);
    test.memory.record_stream(b, late);
    test.memory.deallocate(a);
    test.memory.deallocate(b);
    const Allocation c = test.memory.allocate(24_MiB, own);
    CHECK(c.data() == a);
    CHECK(test.log.is_done("early"));
    CHECK_FALSE(test.log.is_done("late"));
    CHECK(test.counters().deferred_free_waits == 1);
    CHECK(test.counters().out_of_memory == 0);
    check_whole(test.memory);
  });
}

TEST_CASE("a request that needs several pending frees reclaims all of them at once") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream own = test.stream();
    const Stream users[] = {test.stream(), test.stream(), test.stream(), test.stream()};
    std::vector<Allocation> blocks;
    for (int index = 0; index < 4; ++index) blocks.push_back(test.memory.allocate(16_MiB, own));
    for (std::size_t index = 0; index < 4; ++index) {
      test.log.submit(users[index], "work " + std::to_string(index));
      blocks[index].record_stream(users[index]);
    }
    blocks.clear();
    const Allocation all = test.memory.allocate(64_MiB, own);
    CHECK(all);
    CHECK(test.log.done().size() == 4);
    CHECK(test.counters().out_of_memory == 0);
    check_whole(test.memory);
  });
}

TEST_CASE("a request that needs all memory together is served") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream own = test.stream();
    const Stream busy = test.stream();
    const Stream user = test.stream();
    Allocation cached_own = test.memory.allocate(12_MiB, own);
    Allocation cached_busy = test.memory.allocate(12_MiB, busy);
    Allocation pending = test.memory.allocate(12_MiB, own);
    test.log.submit(busy, "earlier");
    test.log.submit(user, "user");
    pending.record_stream(user);
    void* const of_busy = cached_busy.data();
    void* const of_user = pending.data();
    cached_own.reset();
    cached_busy.reset();
    pending.reset();
    const Allocation all = test.memory.allocate(64_MiB, own);
    CHECK(all);
    CHECK(test.log.is_done("user"));
    CHECK(test.apart_or_in_order(of_busy, 12_MiB, all.data(), 64_MiB, own));
    CHECK(of_user != nullptr);
    CHECK(test.counters().out_of_memory == 0);
    check_whole(test.memory);
  });
}

TEST_CASE("cached segments of other sizes are released for a request that none of them holds") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  const Stream other = test.stream();
  { const Allocation a = test.memory.allocate(20_MiB, stream); }
  { const Allocation b = test.memory.allocate(24_MiB, other); }
  const Allocation c = test.memory.allocate(60_MiB, stream);
  CHECK(c);
  CHECK(test.counters().segments_released >= 1);
  CHECK(test.counters().out_of_memory == 0);
  check_whole(test.memory);
}

TEST_CASE("free granules that lie apart serve a request for all of them") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  std::vector<Allocation> blocks;
  for (int index = 0; index < 32; ++index) blocks.push_back(test.memory.allocate(2_MiB, stream));
  for (std::size_t index = 0; index < blocks.size(); index += 2) blocks[index].reset();
  REQUIRE(test.counters().bytes_reserved.current == 64_MiB);
  const Allocation large = test.memory.allocate(32_MiB, stream);
  CHECK(large);
  CHECK(test.simulator.device_bytes_used(0) == 64_MiB);
  check_whole(test.memory);
}

TEST_CASE("memory taken by another allocator causes out of memory until it is freed") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB), options);
    const Stream stream = test.stream();
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
    CUdeviceptr foreign = 0;
    REQUIRE(sim::berth_sim_cuMemAlloc(&foreign, 40_MiB) == CUDA_SUCCESS);
    { const Allocation fits = test.memory.allocate(20_MiB, stream); }
    try {
      const Allocation refused = test.memory.allocate(30_MiB, stream);
      FAIL("30 MiB were given where 24 MiB are left");
    } catch (const OutOfMemory& error) {
      CHECK(error.driver_code() == CUDA_ERROR_OUT_OF_MEMORY);
      CHECK(contains(error.what(), format_bytes(30_MiB)));
    }
    check_whole(test.memory);
    { const Allocation fits = test.memory.allocate(24_MiB, stream); }
    REQUIRE(sim::berth_sim_cuMemFree(foreign) == CUDA_SUCCESS);
    CHECK(test.memory.allocate(64_MiB, stream));
    check_whole(test.memory);
  });
}

TEST_CASE("the pressure callback gets the missing bytes, and memory that it frees is used") {
  with_each_backing([](DeviceAllocatorOptions options) {
    std::vector<Allocation> framework_cache;
    std::vector<std::size_t> asked;
    std::thread::id caller;
    options.on_pressure = [&](std::size_t bytes_needed) {
      asked.push_back(bytes_needed);
      caller = std::this_thread::get_id();
      framework_cache.clear();
      return asked.size() == 1;
    };
    MemoryTest test(small_device(64_MiB), options);
    const Stream stream = test.stream();
    framework_cache.push_back(test.memory.allocate(24_MiB, stream));
    framework_cache.push_back(test.memory.allocate(24_MiB, stream));
    CHECK(asked.empty());
    const Allocation block = test.memory.allocate(40_MiB, stream);
    CHECK(block);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0] > 0);
    CHECK(asked[0] <= 40_MiB);
    CHECK(caller == std::this_thread::get_id());
    CHECK(test.counters().out_of_memory == 0);
    check_whole(test.memory);
  });
}

TEST_CASE(
    "the pressure callback is not called while cached memory, deferred frees or waits suffice") {
  with_each_backing([](DeviceAllocatorOptions options) {
    int calls = 0;
    options.on_pressure = [&calls](std::size_t) {
      ++calls;
      return false;
    };
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream stream = test.stream();
    const Stream idle = test.stream();
    const Stream busy = test.stream();
    const Stream user = test.stream();
    SUBCASE("cached for streams without work pending") {
      { const Allocation cached = test.memory.allocate(30_MiB, stream); }
      { const Allocation cached = test.memory.allocate(30_MiB, idle); }
      CHECK(test.memory.allocate(64_MiB, stream));
    }
    SUBCASE("freed while recorded streams were busy, which have finished") {
      {
        const Allocation deferred = test.memory.allocate(60_MiB, stream);
        test.log.submit(user, "work");
        deferred.record_stream(user);
      }
      user.ref().sync();
      CHECK(test.memory.allocate(64_MiB, stream));
    }
    SUBCASE("cached for a busy stream and reusable behind a wait") {
      {
        const Allocation cached = test.memory.allocate(60_MiB, busy);
        test.log.submit(busy, "work");
      }
      CHECK(test.memory.allocate(60_MiB, stream));
      CHECK_FALSE(test.log.is_done("work"));
    }
    CHECK(calls == 0);
  });
}

TEST_CASE("the pressure callback is called once for a request, whatever it claims to have freed") {
  with_each_backing([](DeviceAllocatorOptions options) {
    int calls = 0;
    bool claim = false;
    options.on_pressure = [&](std::size_t) {
      ++calls;
      return claim;
    };
    MemoryTest test(small_device(64_MiB), options);
    const Stream stream = test.stream();
    const Allocation live = test.memory.allocate(40_MiB, stream);
    for (const bool claims : {false, true}) {
      claim = claims;
      calls = 0;
      CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(40_MiB, stream)), OutOfMemory);
      CHECK(calls == 1);
      check_whole(test.memory);
    }
    CHECK(test.counters().out_of_memory == 2);
  });
}

TEST_CASE("after the pressure callback a pending free is still waited for") {
  with_each_backing([](DeviceAllocatorOptions options) {
    int calls = 0;
    options.on_pressure = [&calls](std::size_t) {
      ++calls;
      return false;
    };
    MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
    const Stream stream = test.stream();
    const Stream user = test.stream();
    {
      const Allocation deferred = test.memory.allocate(60_MiB, stream);
      deferred.record_stream(user);
      test.log.submit(user, "work");
    }
    CHECK(test.memory.allocate(60_MiB, stream));
    CHECK(calls == 1);
    CHECK(test.log.is_done("work"));
    CHECK(test.counters().deferred_free_waits == 1);
  });
}

TEST_CASE("the pressure callback holds no lock: it and other threads may use the allocator") {
  with_each_backing([](DeviceAllocatorOptions options) {
    DeviceAllocator* memory = nullptr;
    const Stream* stream = nullptr;
    Allocation spilled;
    bool called = false;
    options.on_pressure = [&](std::size_t) {
      if (std::exchange(called, true)) return false;
      std::thread([&] {
        const Allocation theirs = memory->allocate(1000, *stream);
        CHECK(theirs);
        CHECK(memory->counters().blocks_allocated.current >= 2);
      }).join();
      check_whole(*memory);
      memory->trim();
      spilled.reset();
      const Allocation mine = memory->allocate(1000, *stream);
      CHECK(mine);
      return true;
    };
    MemoryTest test(small_device(64_MiB), options);
    const Stream own = test.stream();
    memory = &test.memory;
    stream = &own;
    const Allocation live = test.memory.allocate(4_MiB, own);
    spilled = test.memory.allocate(40_MiB, own);
    const Allocation block = test.memory.allocate(42_MiB, own);
    CHECK(block);
    CHECK(called);
    check_whole(test.memory);
  });
}

TEST_CASE("the pressure callback is called at the byte limit too") {
  with_each_backing([](DeviceAllocatorOptions options) {
    Allocation spilled;
    options.limits.bytes_reserved_max = 64_MiB;
    options.on_pressure = [&](std::size_t) {
      const bool had = bool(spilled);
      spilled.reset();
      return had;
    };
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    spilled = test.memory.allocate(48_MiB, stream);
    const Allocation block = test.memory.allocate(32_MiB, stream);
    CHECK(block);
    CHECK(test.counters().bytes_reserved.peak <= 64_MiB);
    CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(48_MiB, stream)), OutOfMemory);
  });
}

TEST_CASE("no refused request succeeds on a mere retry") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    // 6 MiB are live: three granules, or a segment of 20 MiB.
    const std::size_t room = options.virtual_memory ? 58_MiB : 44_MiB;
    for (std::size_t bytes = 4_MiB; bytes <= 64_MiB; bytes += 4_MiB) {
      CAPTURE(bytes);
      MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
      const Stream own = test.stream();
      const Stream busy = test.stream();
      const Allocation live = test.memory.allocate(6_MiB, own);
      for (int index = 0; index < 5; ++index) {
        const Stream& stream = index % 2 ? own : busy;
        const Allocation block = test.memory.allocate(std::size_t(index + 1) * 3_MiB, stream);
        if (index % 3 == 0) block.record_stream(index % 2 ? busy : own);
        test.log.submit(busy, "work");
      }
      const bool first = test.memory.try_allocate(bytes, own).ok();
      const bool second = test.memory.try_allocate(bytes, own).ok();
      CHECK(first == second);
      CHECK(first == (bytes <= room));
      check_whole(test.memory);
    }
  });
}

}  // namespace pressure_contract_test
