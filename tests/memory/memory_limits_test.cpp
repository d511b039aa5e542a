// SPDX-License-Identifier: Apache-2.0
// Limits of the device and of pools: what they refuse, and what they give back instead.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace memory_limits_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("an amount of memory is bytes or a fraction of the device's memory") {
  CHECK(MemoryAmount(1000).bytes(64_MiB) == 1000);
  CHECK(MemoryAmount::part_of_device(0).bytes(64_MiB) == 0);
  CHECK(MemoryAmount::part_of_device(0.25).bytes(64_MiB) == 16_MiB);
  CHECK(MemoryAmount::part_of_device(1).bytes(~std::size_t{0}) == ~std::size_t{0});
  for (const double part : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    message_of<InvalidArgument>([&] { return MemoryAmount::part_of_device(part); });
  }
}

TEST_CASE(
    "a pool's limit refuses before any driver call, and leaves the device's memory to others") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(small_device(64_MiB), options);
    const Stream stream = test.stream();
    MemoryPool pool =
        test.memory.create_pool({.name = "pool", .limits = {.bytes_reserved_max = 24_MiB}});
    const Allocation block = pool.allocate(20_MiB, stream);
    const std::uint64_t created =
        test.simulator.calls("cuMemCreate") + test.simulator.calls("cuMemAlloc");
    message_of<OutOfMemory>([&] { return pool.allocate(20_MiB, stream); });
    CHECK(pool.counters().limit_rejections > 0);
    CHECK(created == test.simulator.calls("cuMemCreate") + test.simulator.calls("cuMemAlloc"));
    CHECK(test.memory.allocate(20_MiB, stream).data() != nullptr);
    pool.set_limits({});
    CHECK(pool.allocate(20_MiB, stream).data() != nullptr);
  });
}

TEST_CASE("the device's limit is that of all its pools together") {
  DeviceAllocatorOptions options;
  options.limits.bytes_reserved_max = MemoryAmount::part_of_device(0.5);
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Allocation first = pool.allocate(20_MiB, stream);
  message_of<OutOfMemory>([&] { return test.memory.allocate(20_MiB, stream); });
  CHECK(test.counters().limit_rejections > 0);
  const Allocation fits = test.memory.allocate(12_MiB, stream);
  CHECK(fits.data() != nullptr);
  test.memory.set_limits({});
  CHECK(test.memory.allocate(20_MiB, stream).data() != nullptr);
}

TEST_CASE("memory that a pool returns is available to others at once") {
  DeviceAllocatorOptions options;
  options.limits.bytes_reserved_max = 32_MiB;
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  {
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    { const Allocation block = pool.allocate(20_MiB, stream); }
    pool.trim();
    CHECK(test.memory.allocate(32_MiB, stream).data() != nullptr);
    test.memory.trim();
    const Allocation block = pool.allocate(20_MiB, stream);
  }
  CHECK(test.memory.allocate(32_MiB, stream).data() != nullptr);
}

TEST_CASE("headroom stays free for others, whichever process has taken the rest") {
  DeviceAllocatorOptions options;
  options.headroom_bytes = 16_MiB;
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  CHECK(contains(message_of<OutOfMemory>([&] { return test.memory.allocate(50_MiB, stream); }),
                 "accepted: at most 48.0 MiB (50331648 B), which is what the headroom leaves"));
  const Allocation block = test.memory.allocate(20_MiB, stream);
  RuntimeOptions other_options;
  other_options.driver = "sim";
  Runtime other(other_options);  // stands for whoever else uses the GPU
  const Stream other_stream = other.create_stream(Device::cuda(0));
  const Allocation others = other.memory(Device::cuda(0)).allocate(20_MiB, other_stream);
  const std::string refusal =
      message_of<OutOfMemory>([&] { return test.memory.allocate(10_MiB, stream); });
  CHECK(contains(refusal, "; headroom 16.0 MiB; the driver has"));
  CHECK_FALSE(contains(refusal, "limit"));
  CHECK(test.counters().limit_rejections > 0);
  const Allocation fits = test.memory.allocate(8_MiB, stream);
  CHECK(fits.data() != nullptr);
}

TEST_CASE("free memory is not queried without a headroom") {
  MemoryTest test(small_device(64_MiB));
  const Stream stream = test.stream();
  const Allocation block = test.memory.allocate(20_MiB, stream);
  CHECK(test.simulator.calls("cuMemGetInfo") == 0);
}

TEST_CASE("beyond the soft limit idle memory is returned, and no request fails for it") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;  // segments are given back whole, or not at all
  options.segment_bytes = 2_MiB;
  options.limits.bytes_reserved_soft_max = 24_MiB;
  MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
  const Stream stream = test.stream();
  { const Allocation cached = test.memory.allocate(10_MiB, stream); }
  { const Allocation cached = test.memory.allocate(12_MiB, stream); }
  CHECK(test.counters().bytes_reserved.current == 22_MiB);
  const Allocation large = test.memory.allocate(14_MiB, stream);
  CHECK(test.counters().bytes_reserved.current == 24_MiB);
  const Allocation larger = test.memory.allocate(30_MiB, stream);
  CHECK(larger.data() != nullptr);
  CHECK(test.counters().bytes_reserved.current == 44_MiB);
}

TEST_CASE("beyond the soft limit memory that work still uses stays cached") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  options.segment_bytes = 2_MiB;
  options.limits.bytes_reserved_soft_max = 24_MiB;
  MemoryTest test(small_device(64_MiB, sim::Progress::manual), options);
  const Stream stream = test.stream();
  {
    const Allocation used = test.memory.allocate(20_MiB, stream);
    test.log.submit(stream, "use");
  }
  const Allocation large = test.memory.allocate(30_MiB, stream);
  CHECK_FALSE(test.log.is_done("use"));
  CHECK(test.counters().bytes_reserved.current == 50_MiB);
}

TEST_CASE("beyond the device's soft limit other pools return cached memory") {
  DeviceAllocatorOptions options;
  options.limits.bytes_reserved_soft_max = 24_MiB;
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  { const Allocation cached = pool.allocate(20_MiB, stream); }
  const Allocation block = test.memory.allocate(20_MiB, stream);
  CHECK(pool.counters().bytes_reserved.current == 4_MiB);
}

TEST_CASE("the pressure callback is repeated as long as it frees blocks") {
  std::vector<Allocation> kept;
  int calls = 0;
  DeviceAllocatorOptions options;
  options.on_pressure = [&](std::size_t) {
    ++calls;
    if (!kept.empty()) kept.pop_back();
    return true;  // whether it is so or not
  };
  MemoryTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  for (int block = 0; block < 6; ++block) kept.push_back(test.memory.allocate(10_MiB, stream));
  Allocation large = test.memory.allocate(30_MiB, stream);
  CHECK(calls == 3);
  calls = 0;
  message_of<OutOfMemory>([&] { return test.memory.allocate(40_MiB, stream); });
  CHECK(calls == 4);  // three that freed the rest, and one that only said so
}

}  // namespace memory_limits_test
