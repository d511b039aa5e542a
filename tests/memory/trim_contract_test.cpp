// SPDX-License-Identifier: Apache-2.0
// trim(): what it returns, what it keeps, and which streams it waits for.
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/device_bytes.hpp"
#include "support/errors.hpp"

namespace trim_contract_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("trim returns all cached memory to the driver and reports the bytes") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    const Stream other = test.stream();
    {
      std::vector<Allocation> blocks;
      for (std::size_t index = 0; index < 30; ++index)
        blocks.push_back(test.memory.allocate(1 + index * 700'001, index % 2 ? stream : other));
    }
    const std::uint64_t reserved = test.counters().bytes_reserved.current;
    CHECK(reserved > 0);
    CHECK(test.simulator.device_bytes_used(0) == reserved);
    CHECK(test.memory.trim() == reserved);
    CHECK(test.counters().bytes_reserved.current == 0);
    CHECK(test.simulator.device_bytes_used(0) == 0);
    CHECK(test.memory.snapshot().segments.empty());
    CHECK(test.memory.trim() == 0);
    check_whole(test.memory);
    CHECK(test.memory.allocate(1_MiB, stream));
  });
}

TEST_CASE("trim keeps as much as it is told to, and no more") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    {
      std::vector<Allocation> blocks;
      for (int index = 0; index < 4; ++index)
        blocks.push_back(test.memory.allocate(16_MiB, stream));
    }
    REQUIRE(test.counters().bytes_reserved.current == 64_MiB);
    CHECK(test.memory.trim(SIZE_MAX) == 0);
    CHECK(test.memory.trim(64_MiB) == 0);
    CHECK(test.memory.trim(32_MiB) == 32_MiB);
    CHECK(test.counters().bytes_reserved.current == 32_MiB);
    check_whole(test.memory);
    const std::size_t given_back = test.memory.trim(1);
    CHECK(given_back == 32_MiB - test.counters().bytes_reserved.current);
    CHECK(test.counters().bytes_reserved.current <= 1);
    check_whole(test.memory);
  });
}

TEST_CASE("trim leaves live blocks where they are, with their content") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test({}, options);
    const Stream stream = test.stream();
    std::vector<Allocation> blocks;
    for (int index = 0; index < 24; ++index) blocks.push_back(test.memory.allocate(4_MiB, stream));
    std::vector<Allocation> kept;
    for (std::size_t index = 0; index < blocks.size(); index += 3)
      kept.push_back(std::move(blocks[index]));
    for (std::size_t index = 0; index < kept.size(); ++index) {
      const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
      REQUIRE(sim::berth_sim_cuMemsetD8Async(address_of(kept[index].data()),
                                             static_cast<unsigned char>(index + 1), 4_MiB,
                                             stream.ref().native()) == CUDA_SUCCESS);
    }
    blocks.clear();
    test.memory.trim();
    check_whole(test.memory);
    CHECK(test.counters().bytes_reserved.current >= 32_MiB);
    for (std::size_t index = 0; index < kept.size(); ++index) {
      CHECK(holds(test.simulator, address_of(kept[index].data()), 4_MiB,
                  static_cast<unsigned char>(index + 1)));
    }
  });
}

TEST_CASE("with granules, trim gives back every granule that no live block touches") {
  MemoryTest test;
  const Stream stream = test.stream();
  std::vector<Allocation> blocks;
  for (int index = 0; index < 32; ++index) blocks.push_back(test.memory.allocate(2_MiB, stream));
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    if (index % 4 != 0) blocks[index].reset();
  }
  test.memory.trim();
  CHECK(test.counters().bytes_reserved.current == 16_MiB);
  CHECK(test.simulator.device_bytes_used(0) == 16_MiB);
  check_whole(test.memory);
}

TEST_CASE("trim waits for the work of streams whose cached memory it returns") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(manual_progress(), options);
    const Stream stream = test.stream();
    const Stream other = test.stream();
    {
      const Allocation a = test.memory.allocate(8_MiB, stream);
      const Allocation b = test.memory.allocate(8_MiB, other);
      test.log.submit(stream, "work");
      test.log.submit(other, "other work");
    }
    test.memory.trim();
    CHECK(test.counters().bytes_reserved.current == 0);
    CHECK(test.log.is_done("work"));
    CHECK(test.log.is_done("other work"));
    check_whole(test.memory);
  });
}

TEST_CASE("trim does not wait for streams without cached memory") {
  MemoryTest test(manual_progress());
  const Stream stream = test.stream();
  const Stream busy = test.stream();
  const Allocation live = test.memory.allocate(8_MiB, busy);
  { const Allocation cached = test.memory.allocate(32_MiB, stream); }
  test.log.submit(busy, "work");
  CHECK(test.memory.trim() >= 32_MiB);
  CHECK_FALSE(test.log.is_done("work"));
}

}  // namespace trim_contract_test
