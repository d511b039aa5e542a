// SPDX-License-Identifier: Apache-2.0
// Small requests where the driver, a limit or the headroom leaves no room for a shared segment.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "pool/pools_fixture.hpp"
#include "support/allocator_checks.hpp"
#include "support/errors.hpp"

namespace least_segment_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Allocates from a pool with shared segments on a device of 64 MiB: a contiguous pool, or
/// segments of cuMemAlloc.
struct SharedSegments {
  SharedSegments(bool virtual_memory, DeviceAllocatorOptions options)
      : test((options.virtual_memory = virtual_memory, std::move(options))) {
    if (virtual_memory) pool = test.memory.create_pool({.name = "shared", .contiguous = true});
  }
  Allocation allocate(std::size_t bytes) {
    if (pool) return pool->allocate(bytes, stream);
    return test.memory.allocate(bytes, stream);
  }
  [[nodiscard]] MemoryCounters counters() const {
    return pool ? pool->counters() : test.memory.counters();
  }

  PoolsTest test;
  Stream stream = test.stream();
  std::optional<MemoryPool> pool;
};

}  // namespace

TEST_CASE("a small request gets the memory that it needs if there is none for a shared segment") {
  DeviceAllocatorOptions limited;
  limited.limits.bytes_reserved_max = 64_MiB;
  DeviceAllocatorOptions with_headroom;
  with_headroom.headroom_bytes = 4_MiB;
  for (const DeviceAllocatorOptions& options : {DeviceAllocatorOptions(), limited, with_headroom}) {
    for (const bool virtual_memory : {true, false}) {
      CAPTURE(virtual_memory);
      SharedSegments memory(virtual_memory, options);
      const Allocation large = memory.allocate(54_MiB);
      const Allocation small = memory.allocate(100);
      CHECK(memory.counters().bytes_reserved.current == 56_MiB);
      CHECK(memory.counters().limit_rejections == 0);
      const Allocation beside = memory.allocate(100);  // in the same segment
      CHECK(memory.counters().bytes_reserved.current == 56_MiB);
      CHECK(memory.test.used() == 56_MiB);
      check_whole(memory.test.memory);
    }
  }
}

TEST_CASE("a request that no segment can serve is refused, and reports the refusal once") {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    DeviceAllocatorOptions options;
    options.headroom_bytes = 4_MiB;
    SharedSegments memory(virtual_memory, options);
    const Allocation large = memory.allocate(60_MiB);
    CHECK_THROWS_AS(static_cast<void>(memory.allocate(100)), OutOfMemory);
    CHECK(memory.counters().bytes_reserved.current == 60_MiB);
    CHECK(memory.counters().limit_rejections > 0);
  }
}

TEST_CASE("a shared segment larger than the device counts as large as the device") {
  for (const std::size_t segment_bytes : {std::size_t{1} << 40, SIZE_MAX}) {
    for (const bool virtual_memory : {true, false}) {
      CAPTURE(virtual_memory);
      DeviceAllocatorOptions options;
      options.segment_bytes = segment_bytes;
      SharedSegments memory(virtual_memory, options);
      Allocation alone = memory.allocate(1_MiB);
      CHECK(memory.counters().bytes_reserved.current == 64_MiB);
      CHECK(memory.allocate(1_MiB).data() != alone.data());
      alone.reset();
      memory.test.memory.trim();
      const Allocation large = memory.allocate(54_MiB);
      const Allocation small = memory.allocate(100);
      CHECK(memory.counters().bytes_reserved.current == 56_MiB);
      check_whole(memory.test.memory);
    }
  }
}

}  // namespace least_segment_test
