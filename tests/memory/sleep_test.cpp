// SPDX-License-Identifier: Apache-2.0
// Sleep and wake: what happens to memory, addresses and content, and what is refused meanwhile.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "memory/allocator_fixture.hpp"
#include "memory/memory_fixture.hpp"
#include "support/device_bytes.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace sleep_test {

using namespace berth;
using namespace berth::test;

namespace {

struct SleepTest : MemoryTest {
  explicit SleepTest(const sim::Config& config = small_device(64_MiB),
                     DeviceAllocatorOptions options = {})
      : MemoryTest(config, std::move(options)), pool(memory.create_pool({.name = "pool"})) {}

  void fill(const Allocation& block, unsigned char value, StreamRef on) {
    const std::vector<unsigned char> bytes(block.bytes(), value);
    runtime->copier().copy_async(block.data(), bytes.data(), bytes.size(), on);
    on.sync();
  }
  [[nodiscard]] bool holds(const Allocation& block, unsigned char value) const {
    return test::holds(simulator, reinterpret_cast<CUdeviceptr>(block.data()), block.bytes(),
                       value);
  }

  MemoryPool pool;
};

/// The tests that fail each driver call once fill a device each time.
constexpr std::size_t kFilledBytes = 24_MiB;

/// A block of 7 MiB that is joined from holes between others, which stay.
std::pair<void*, std::vector<void*>> stitch(AllocatorFixture& test, StreamRef stream) {
  std::vector<void*> blocks;
  for (std::size_t used = 0; used < kFilledBytes; used += 2_MiB) {
    blocks.push_back(test.allocate(2_MiB, stream));
  }
  std::vector<void*> kept;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    if (block % 2 == 0 && block < 10) {
      test.free(blocks[block]);
    } else {
      kept.push_back(blocks[block]);
    }
  }
  void* const stitched = test.allocate(7_MiB, stream);
  REQUIRE(test.counters().page_remaps > 0);
  return {stitched, kept};
}

/// The same with 9 in each byte of the block; of the others those beside the holes stay.
void* stitch_filled(AllocatorFixture& test, const Stream& stream) {
  const auto [stitched, kept] = stitch(test, stream);
  for (std::size_t block = 5; block < kept.size(); ++block) test.free(kept[block]);
  {
    const ContextScope scope(test.context);
    test.driver.memset_d8_async(CUdeviceptr{std::uintptr_t(stitched)}, (unsigned char)9, 7_MiB,
                                stream.ref().native());
  }
  stream.ref().sync();
  return stitched;
}

}  // namespace

TEST_CASE("a pool that sleeps has no physical memory, and wakes at the same addresses") {
  SleepTest test;
  const Stream stream = test.stream();
  Allocation block = test.pool.allocate(6_MiB, stream);
  { const Allocation cached = test.pool.allocate(5_MiB, stream); }
  const std::uint64_t used = test.simulator.device_bytes_used(0);
  CHECK(test.pool.sleep() == 12_MiB);
  CHECK(test.pool.is_asleep());
  CHECK(test.simulator.device_bytes_used(0) == used - 12_MiB);
  CHECK(test.pool.counters().bytes_reserved.current == 0);
  CHECK(test.pool.counters().bytes_asleep.current == 12_MiB);
  test.pool.validate();
  CHECK(find_discrepancies(test.pool.snapshot()).empty());
  const Allocation others = test.memory.allocate(56_MiB, stream);  // all of it is there for others
  message_of<OutOfMemory>([&] { test.pool.wake(); });
  CHECK(test.pool.is_asleep());
  test.pool.validate();
}

TEST_CASE("a sleeping pool leaves its share of the limit to others until it wakes") {
  DeviceAllocatorOptions options;
  options.limits.bytes_reserved_max = 16_MiB;
  SleepTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  const Allocation block = test.pool.allocate(12_MiB, stream);
  CHECK(test.pool.sleep() == 12_MiB);
  {
    const Allocation others = test.memory.allocate(16_MiB, stream);
    message_of<OutOfMemory>([&] { test.pool.wake(); });
  }
  test.pool.wake();
  message_of<OutOfMemory>([&] { return test.memory.allocate(6_MiB, stream); });
  CHECK(test.memory.allocate(4_MiB, stream).data() != nullptr);
}

TEST_CASE("after wake() a pool allocates as before") {
  SleepTest test;
  const Stream stream = test.stream();
  Allocation block = test.pool.allocate(6_MiB, stream);
  test.pool.sleep();
  test.pool.wake();
  CHECK_FALSE(test.pool.is_asleep());
  CHECK(test.pool.counters().bytes_reserved.current == 6_MiB);
  CHECK(test.pool.counters().bytes_asleep.current == 0);
  test.fill(block, 7, stream);
  CHECK(test.holds(block, 7));
  const Allocation more = test.pool.allocate(4_MiB, stream);
  test.pool.validate();
  CHECK(test.pool.sleep() > 0);
  CHECK(test.pool.sleep() == 0);
  test.pool.wake();
  test.pool.wake();
  test.pool.validate();
}

TEST_CASE("content is kept on request, including that of stitched blocks") {
  SleepTest test(small_device(16_MiB));
  const Stream stream = test.stream();
  std::vector<Allocation> blocks;
  for (int block = 0; block < 8; ++block) blocks.push_back(test.pool.allocate(2_MiB, stream));
  for (int block = 0; block < 8; block += 2) blocks[std::size_t(block)].reset();
  const Allocation stitched = test.pool.allocate(7_MiB, stream);
  REQUIRE(test.pool.counters().page_remaps > 0);
  test.fill(stitched, 9, stream);
  for (std::size_t block = 1; block < 8; block += 2) {
    test.fill(blocks[block], static_cast<unsigned char>(block), stream);
  }
  test.pool.sleep(SleepContent::keep);
  test.pool.wake();
  CHECK(test.holds(stitched, 9));
  for (std::size_t block = 1; block < 8; block += 2) {
    CHECK(test.holds(blocks[block], static_cast<unsigned char>(block)));
  }
  test.pool.validate();
}

TEST_CASE("while a pool sleeps allocations are refused, also those from a thread's cache") {
  SleepTest test;
  const Stream stream = test.stream();
  { const Allocation at_hand = test.pool.allocate(4096, stream); }
  Allocation live = test.pool.allocate(4096, stream);
  test.pool.sleep();
  CHECK(contains(message_of<InvalidArgument>([&] { return test.pool.allocate(4096, stream); }),
                 "asleep"));
  live.reset();
  message_of<InvalidArgument>([&] { return test.pool.allocate(4096, stream); });
  CHECK(test.pool.trim() == 0);
  test.pool.validate();
  test.pool.wake();
  CHECK(test.pool.allocate(4096, stream).data() != nullptr);
}

TEST_CASE("a pool falls asleep after the work that uses it") {
  SleepTest test(small_device(64_MiB, sim::Progress::manual));
  const Stream stream = test.stream();
  const Allocation block = test.pool.allocate(2_MiB, stream);
  test.log.submit(stream, "use");
  test.pool.sleep();
  CHECK(test.log.is_done("use"));
}

TEST_CASE("a sleeping pool may be closed") {
  SleepTest test;
  const Stream stream = test.stream();
  {
    MemoryPool pool = test.memory.create_pool({.name = "other"});
    { const Allocation block = pool.allocate(6_MiB, stream); }
    pool.sleep();
  }
  CHECK(test.memory.pool_snapshots().size() == 1);
}

TEST_CASE("pools sleep and wake by name") {
  SleepTest test;
  const Stream stream = test.stream();
  MemoryPool twin = test.memory.create_pool({.name = "pool"});
  MemoryPool other = test.memory.create_pool({.name = "other"});
  const Allocation a = test.pool.allocate(2_MiB, stream);
  const Allocation b = twin.allocate(4_MiB, stream);
  const Allocation c = other.allocate(2_MiB, stream);
  CHECK(test.memory.sleep("pool") == 6_MiB);
  CHECK(twin.is_asleep());
  CHECK_FALSE(other.is_asleep());
  test.memory.wake("pool");
  CHECK_FALSE(test.pool.is_asleep());
  const std::string message =
      message_of<InvalidArgument>([&] { return test.memory.sleep("none"); });
  CHECK(contains(message, "pool, pool, other"));
}

TEST_CASE("if one pool of a name cannot sleep, the others stay awake with their content") {
  SleepTest test;
  const Stream stream = test.stream();
  const MemoryPool twin = test.memory.create_pool({.name = "pool", .contiguous = true});
  const Allocation block = test.pool.allocate(2_MiB, stream);
  test.fill(block, 7, stream);
  for (const SleepContent content : {SleepContent::discard, SleepContent::keep}) {
    message_of<NotSupported>([&] { return test.memory.sleep("pool", content); });
    CHECK_FALSE(test.pool.is_asleep());
    CHECK(test.holds(block, 7));
    CHECK(test.pool.counters().bytes_asleep.current == 0);
    { const Allocation another = test.pool.allocate(2_MiB, stream); }
  }
  test.pool.validate();
}

TEST_CASE("a pool that was closed asleep cannot be woken, and is named") {
  SleepTest test;
  const Stream stream = test.stream();
  Allocation block;
  Allocation awake;
  {
    MemoryPool closed = test.memory.create_pool({.name = "closed"});
    block = closed.allocate(2_MiB, stream);
    closed.sleep();
    awake = test.memory.create_pool({.name = "awake"}).allocate(2_MiB, stream);
  }
  const auto refusal = [&](const char* name) {
    return message_of<InvalidArgument>([&] {
      test.memory.wake(name);
      return 0;
    });
  };
  CHECK(contains(refusal("closed"),
                 "cuda:0/closed is closed, and can neither sleep nor wake: it "
                 "was closed asleep, so its blocks can only be freed; accepted: "
                 "pool"));
  CHECK(contains(refusal("awake"),
                 "cuda:0/awake is closed, and can neither sleep nor wake: its "
                 "blocks are in use; accepted: pool"));
}

TEST_CASE("wake() without enough memory reports the needed and the available bytes") {
  SleepTest test;
  const Stream stream = test.stream();
  const Allocation block = test.pool.allocate(32_MiB, stream);
  test.pool.sleep();
  const Allocation other = test.memory.allocate(48_MiB, stream);
  const auto refusal = [&] {
    return message_of<OutOfMemory>([&] {
      test.pool.wake();
      return 0;
    });
  };
  CHECK(refusal() ==
        "cuda:0/pool cannot wake: it needs 32.0 MiB (33554432 B); the driver has 16.0 MiB of 64.0 "
        "MiB free; it is still asleep, and can be woken when memory is available");
  test.pool.set_limits({.bytes_reserved_max = 30_MiB});
  CHECK(contains(refusal(), "; limit 30.0 MiB; 30.0 MiB left to reserve; the driver has"));
}

TEST_CASE("wake() takes memory that other pools have cached") {
  SleepTest test;
  const Stream stream = test.stream();
  const Allocation block = test.pool.allocate(32_MiB, stream);
  test.pool.sleep();
  { const Allocation cached = test.memory.allocate(48_MiB, stream); }
  test.pool.wake();
  CHECK_FALSE(test.pool.is_asleep());
}

TEST_CASE("without virtual memory a pool cannot sleep, and stays awake") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  SleepTest test(small_device(64_MiB), options);
  const Stream stream = test.stream();
  // Segments may lie side by side: no copy may span two.
  std::vector<Allocation> segments;
  for (int segment = 0; segment < 8; ++segment)
    segments.push_back(test.pool.allocate(4_MiB, stream));
  const std::uint64_t copies = driver_calls(*test.runtime, "cuMemcpyAsync");
  for (const SleepContent content : {SleepContent::discard, SleepContent::keep})
    message_of<NotSupported>([&] { return test.pool.sleep(content); });
  CHECK(driver_calls(*test.runtime, "cuMemcpyAsync") == copies);
  CHECK_FALSE(test.pool.is_asleep());
  CHECK(test.pool.allocate(4096, stream).data() != nullptr);
}

TEST_CASE("after any driver failure a pool is either asleep or awake, and a retry succeeds") {
  const Thinned thinned(3);
  for (const DriverCall call :
       {DriverCall::ctx_synchronize, DriverCall::mem_create, DriverCall::mem_map,
        DriverCall::mem_set_access, DriverCall::memcpy_async, DriverCall::stream_synchronize}) {
    int failures = 0;
    for (int nth = 1;; nth += thinned.step()) {
      CAPTURE(kDriverCallNames[std::size_t(call)]);
      CAPTURE(nth);
      AllocatorFixture test({.device_bytes = kFilledBytes});
      CachingAllocator& allocator = *test.allocator;
      const Stream stream = test.stream();
      void* const stitched = stitch_filled(test, stream);
      test.tap.refuse(call, CUDA_ERROR_OUT_OF_MEMORY, nth);
      bool failed = false;
      try {
        allocator.sleep(test.context, SleepContent::keep);
        allocator.wake(test.context);
      } catch (const Error&) {
        failed = true;
      }
      test.tap.allow(call);
      allocator.validate();
      if (allocator.is_asleep()) CHECK(test.simulator.device_bytes_used(0) == 0);
      allocator.wake(test.context);
      CHECK_FALSE(allocator.is_asleep());
      CHECK(holds(test.simulator, CUdeviceptr{std::uintptr_t(stitched)}, 7_MiB, 9));
      CHECK(test.allocate(512, stream) != nullptr);
      if (!failed) break;
      ++failures;
    }
    CHECK(failures > 0);
  }
}

namespace {

/// A pool with a stitched block, put to sleep while the driver refuses the nth unmap.
struct RefusedSleep : AllocatorFixture {
  explicit RefusedSleep(int nth) : AllocatorFixture({.device_bytes = kFilledBytes}) {
    tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN, nth);
    try {
      allocator->sleep(context, SleepContent::keep);
    } catch (const DriverError&) {
      is_refused = true;
    }
    CHECK(allocator->is_asleep());
    tap.allow(DriverCall::mem_unmap);
  }
  [[nodiscard]] bool content_holds() {
    return holds(simulator, CUdeviceptr{std::uintptr_t(stitched)}, 7_MiB, 9);
  }

  const Stream own = stream();
  void* const stitched = stitch_filled(*this, own);
  const std::uint64_t used_before = simulator.device_bytes_used(0);
  bool is_refused = false;
};

}  // namespace

TEST_CASE("memory that the driver refuses to unmap in sleep() is kept, and wake() succeeds") {
  const Thinned thinned(3);
  std::size_t refused = 0;
  for (int nth = 1;; nth += thinned.step()) {
    CAPTURE(nth);
    RefusedSleep test(nth);
    CachingAllocator& allocator = *test.allocator;
    const std::uint64_t used = test.used_before;
    if (test.is_refused) {  // what a window still shows is refused again, its granule is not
      test.tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN, 1);
      CHECK_THROWS_AS(allocator.trim(0), DriverError);
      test.tap.allow(DriverCall::mem_unmap);
      CHECK(test.simulator.device_bytes_used(0) == test.counters().bytes_reserved.current);
      CHECK(test.counters().bytes_reserved.current > 0);
    }
    const std::size_t slept = used - test.counters().bytes_reserved.current;
    CHECK(test.simulator.device_bytes_used(0) == used - slept);
    CHECK(test.counters().bytes_asleep.current == slept);
    allocator.validate();
    allocator.wake(test.context);
    CHECK(test.simulator.device_bytes_used(0) == used);
    CHECK(test.content_holds());
    CHECK(allocator.sleep(test.context, SleepContent::keep) == used);  // this time all of it
    allocator.wake(test.context);
    CHECK(test.content_holds());
    allocator.validate();
    CHECK(test.is_refused == (test.reports.count(Severity::error) > 0));
    if (!test.is_refused) break;
    CHECK(slept < used);
    ++refused;
  }
  CHECK(refused > thinned.part_of(4));  // windows, and granules
}

TEST_CASE("what the driver refuses to unmap in sleep() is counted after a wake() without memory") {
  const Thinned thinned(3);
  for (int nth = 1;; nth += thinned.step()) {
    CAPTURE(nth);
    RefusedSleep test(nth);
    CachingAllocator& allocator = *test.allocator;
    if (!test.is_refused) break;
    const std::size_t beside_bytes = kFilledBytes - test.simulator.device_bytes_used(0);
    {
      const ContextScope scope(test.context);
      CUdeviceptr beside = 0;
      test.driver.mem_alloc(&beside, beside_bytes);
      CHECK_THROWS_AS(allocator.wake(test.context), OutOfMemory);
      test.driver.mem_free(beside);
    }
    CHECK(test.simulator.device_bytes_used(0) == test.counters().bytes_reserved.current);
    allocator.wake(test.context);
    CHECK(test.content_holds());
    allocator.validate();
  }
}

}  // namespace sleep_test
