// SPDX-License-Identifier: Apache-2.0
// The byte limit: what it bounds, what it refuses, and what is given back instead.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"

namespace limit_contract_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("the byte limit bounds reserved bytes, and a refusal names it") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.limits.bytes_reserved_max = 64_MiB;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    Allocation a = test.memory.allocate(32_MiB, stream);
    const Allocation b = test.memory.allocate(32_MiB, stream);
    CHECK(test.counters().bytes_reserved.current == 64_MiB);
    const std::string message =
        message_of<OutOfMemory>([&] { return test.memory.allocate(1, stream); });
    CHECK(contains(message, format_bytes(64_MiB)));
    CHECK(test.counters().limit_rejections >= 1);
    CHECK(test.counters().out_of_memory == 1);
    CHECK(test.counters().bytes_reserved.peak == 64_MiB);
    check_whole(test.memory);
    a.reset();
    CHECK(test.memory.allocate(32_MiB, stream));
  });
}

TEST_CASE("a growth beyond the limit is refused before any driver call") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.limits.bytes_reserved_max = 64_MiB;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Allocation a = test.memory.allocate(64_MiB, stream);
    const std::uint64_t obtained =
        test.simulator.calls("cuMemAlloc") + test.simulator.calls("cuMemCreate");
    for (const std::size_t bytes : {std::size_t{1}, 1_MiB, 64_MiB, 1_GiB})
      CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(bytes, stream)), OutOfMemory);
    CHECK(test.simulator.calls("cuMemAlloc") + test.simulator.calls("cuMemCreate") == obtained);
    CHECK(test.counters().limit_rejections >= 4);
    CHECK(test.counters().out_of_memory == 4);
  });
}

TEST_CASE("cached memory is released before a request is refused for the limit") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.limits.bytes_reserved_max = 64_MiB;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Stream other = test.stream();
    test.memory.deallocate(test.memory.allocate_raw(20_MiB, stream));
    { const Allocation small = test.memory.allocate(22_MiB, other); }
    for (const std::size_t bytes : {40_MiB, 50_MiB, 60_MiB, 64_MiB}) {
      CAPTURE(bytes);
      const Allocation block = test.memory.allocate(bytes, stream);
      CHECK(block);
      check_whole(test.memory);
    }
    CHECK(test.counters().bytes_reserved.peak <= 64_MiB);
    CHECK(test.counters().out_of_memory == 0);
  });
}

TEST_CASE("memory above a lowered limit stays reserved until trimmed, and growth is refused") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    Allocation a = test.memory.allocate(40_MiB, stream);
    const Allocation b = test.memory.allocate(24_MiB, stream);
    test.memory.set_limits({.bytes_reserved_max = 30_MiB});
    CHECK(test.counters().bytes_reserved.current == 64_MiB);
    CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(1_MiB, stream)), OutOfMemory);
    a.reset();
    test.memory.trim();
    CHECK(test.counters().bytes_reserved.current <= 30_MiB);
    const std::string message =
        message_of<OutOfMemory>([&] { return test.memory.allocate(20_MiB, stream); });
    CHECK(contains(message, format_bytes(30_MiB)));
    test.memory.set_limits({});
    CHECK(test.memory.allocate(200_MiB, stream));
    check_whole(test.memory);
  });
}

TEST_CASE("a limit of 0 refuses all requests except those of 0 bytes") {
  with_each_backing([](DeviceAllocatorOptions options) {
    options.limits.bytes_reserved_max = 0;
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(1, stream)), OutOfMemory);
    CHECK_FALSE(test.memory.allocate(0, stream));
    CHECK(test.counters().bytes_reserved.peak == 0);
    check_whole(test.memory);
  });
}

}  // namespace limit_contract_test
