// SPDX-License-Identifier: Apache-2.0
// on_map and on_unmap: each mapped byte is announced once, and withdrawn before its unmap.
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "memory/mapping_watch.hpp"
#include "model/random_program.hpp"
#include "sim/simulator.hpp"
#include "support/allocator_checks.hpp"
#include "support/errors.hpp"
#include "support/reports.hpp"

namespace mapping_notices_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config device_of(std::size_t bytes) {
  sim::Config config;
  config.memory = {bytes};
  return config;
}

struct WatchedMemory {
  explicit WatchedMemory(bool virtual_memory = true, std::size_t device_bytes = 128_MiB)
      : simulator(device_of(device_bytes)) {
    memory.emplace(context, events, watch.options(virtual_memory));
  }
  /// The allocator ends; then nothing is announced.
  ~WatchedMemory() {
    memory.reset();
    CHECK(watch.nothing_announced());
  }

  Reports reports;
  sim::Simulator simulator;
  MappingWatch watch;
  Driver driver{watch.source(), reports.sink()};
  Nvml nvml{watch.source()};
  DeviceRegistry registry{driver, nvml};
  DeviceContext& context = registry.context(Device::cuda(0));
  EventPool events{context};
  Stream stream{context, {}};
  std::optional<DeviceAllocator> memory;
};

}  // namespace

TEST_CASE("growth is announced before its blocks are handed out, and a trim withdraws it") {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    WatchedMemory test(virtual_memory);
    Allocation block = test.memory->allocate(5_MiB, test.stream);
    CHECK(test.watch.is_announced(block.data()));
    CHECK(test.watch.bytes_announced() == test.memory->counters().bytes_reserved.current);
    CHECK(test.watch.maps() == 1);
    block.reset();
    CHECK(test.watch.unmaps() == 0);
    test.memory->trim();
    CHECK(test.watch.nothing_announced());
    test.watch.check();
  }
}

TEST_CASE("a contiguous pool withdraws the ranges that it announced") {
  WatchedMemory test;
  std::vector<MappedRange> announced;
  test.watch.in_callback = [&](const MappedRange& range) { announced.push_back(range); };
  MemoryPool pool = test.memory->create_pool({.name = "shared", .contiguous = true});
  Allocation small = pool.allocate(1_MiB, test.stream);
  Allocation large = pool.allocate(30_MiB, test.stream);
  REQUIRE(announced.size() == 2);
  for (const MappedRange& range : announced) CHECK(range.piece_bytes == range.bytes);
  CHECK(announced[1].data == large.data());
  large.reset();
  pool.trim();
  REQUIRE(announced.size() == 3);
  CHECK(announced[2].data == announced[1].data);
  CHECK(announced[2].bytes == announced[1].bytes);
  test.watch.in_callback = [](const MappedRange&) {};
}

TEST_CASE("sleep withdraws all memory of a pool, and wake announces it at the same addresses") {
  WatchedMemory test;
  MemoryPool pool = test.memory->create_pool({.name = "sleeper"});
  const Allocation block = pool.allocate(20_MiB, test.stream);
  const std::size_t bytes = test.watch.bytes_announced();
  pool.sleep();
  CHECK(test.watch.nothing_announced());
  CHECK(test.watch.bytes_mapped() == 0);
  pool.wake();
  CHECK(test.watch.is_announced(block.data()));
  CHECK(test.watch.bytes_announced() == bytes);
  pool.sleep();  // and ends asleep
}

TEST_CASE("joined memory is announced a second time, as an alias") {
  WatchedMemory test(true, 64_MiB);
  std::vector<Allocation> row;
  while (auto block = test.memory->try_allocate(2_MiB, test.stream))
    row.push_back(std::move(block).value());
  for (std::size_t index = 0; index < row.size(); index += 2) row[index].reset();
  const std::size_t before = test.watch.bytes_announced();
  Allocation joined = test.memory->allocate(6_MiB, test.stream);
  CHECK(test.watch.aliases() == 1);
  CHECK(test.watch.bytes_announced() == before + 6_MiB);
  CHECK(test.watch.is_announced(joined.data()));
  test.watch.check();
  joined.reset();
  row.clear();
  test.memory->trim();
  CHECK(test.watch.nothing_announced());
}

TEST_CASE("joined memory falls asleep with its pool, wakes with it, and ends asleep") {
  WatchedMemory test(true, 64_MiB);
  MemoryPool pool = test.memory->create_pool({.name = "sleeper"});
  std::vector<Allocation> row;
  while (auto block = pool.try_allocate(2_MiB, test.stream))
    row.push_back(std::move(block).value());
  for (std::size_t index = 0; index < row.size(); index += 2) row[index].reset();
  const Allocation joined = pool.allocate(6_MiB, test.stream);
  REQUIRE(test.watch.aliases() == 1);
  const std::size_t bytes = test.watch.bytes_announced();
  pool.sleep();
  CHECK(test.watch.nothing_announced());
  CHECK(test.watch.bytes_mapped() == 0);
  pool.wake();
  CHECK(test.watch.aliases() == 2);
  CHECK(test.watch.bytes_announced() == bytes);
  CHECK(test.watch.is_announced(joined.data()));
  pool.sleep();
}

TEST_CASE("an exception of on_map propagates, and the call changes nothing") {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    WatchedMemory test(virtual_memory);
    bool refuses = true;
    test.watch.refuses_range = [&] { return refuses; };
    CHECK_THROWS_AS(test.memory->allocate(5_MiB, test.stream).reset(), MappingWatch::Refused);
    CHECK(test.watch.bytes_mapped() == 0);
    CHECK(test.memory->counters().bytes_reserved.current == 0);
    const auto refused = test.memory->try_allocate(5_MiB, test.stream);
    REQUIRE_FALSE(refused);
    MemoryPool contiguous = test.memory->create_pool({.name = "shared", .contiguous = true});
    CHECK_THROWS_AS(contiguous.allocate(5_MiB, test.stream).reset(), MappingWatch::Refused);
    CHECK(test.watch.bytes_mapped() == 0);
    refuses = false;
    const Allocation served = test.memory->allocate(5_MiB, test.stream);
    CHECK(test.watch.is_announced(served.data()));
    check_whole(*test.memory);
  }
}

TEST_CASE("a pool stays asleep if on_map refuses its wake") {
  WatchedMemory test;
  MemoryPool pool = test.memory->create_pool({.name = "sleeper"});
  Allocation first = pool.allocate(6_MiB, test.stream);
  const Allocation second = pool.allocate(6_MiB, test.stream);
  first.reset();
  pool.sleep();
  bool refuses = true;
  test.watch.refuses_range = [&] { return refuses; };
  CHECK_THROWS_AS(pool.wake(), MappingWatch::Refused);
  CHECK(pool.is_asleep());
  CHECK(test.watch.bytes_mapped() == 0);
  refuses = false;
  pool.wake();
  CHECK(test.watch.is_announced(second.data()));
}

TEST_CASE("an exception of on_unmap is reported, and the memory is returned") {
  WatchedMemory test;
  test.memory->allocate(5_MiB, test.stream).reset();
  test.watch.in_callback = [](const MappedRange&) { throw std::runtime_error("busy card"); };
  CHECK(test.memory->trim() > 0);
  CHECK(test.memory->counters().bytes_reserved.current == 0);
  CHECK(test.reports.mention("busy card"));
  test.watch.in_callback = [](const MappedRange&) {};
}

TEST_CASE("the callbacks may free and query, and calls that would deadlock are refused") {
  WatchedMemory test;
  MemoryPool pool = test.memory->create_pool({.name = "other"});
  MemoryPool sleeper = test.memory->create_pool({.name = "sleeper"});
  Allocation to_free = test.memory->allocate(1_MiB, test.stream);
  const Allocation recorded = test.memory->allocate(1_MiB, test.stream);
  Stream other{test.context, {}};
  int calls = 0;
  test.watch.in_callback = [&](const MappedRange& range) {
    if (calls++ > 0) return;
    CHECK(test.memory->owns(to_free.data()));
    CHECK(test.memory->find(to_free.data()).has_value());
    CHECK(test.memory->counters().blocks_allocated.current == 2);
    to_free.reset();
    CHECK_THROWS_AS(test.memory->allocate(64_MiB, test.stream).reset(), InvalidArgument);
    CHECK_THROWS_AS(pool.allocate(1_MiB, test.stream).reset(), InvalidArgument);
    CHECK_THROWS_AS(test.memory->trim(), InvalidArgument);
    CHECK_THROWS_AS(test.memory->release_unused(std::chrono::seconds(0)), InvalidArgument);
    CHECK_THROWS_AS(sleeper.sleep(), InvalidArgument);
    CHECK_THROWS_AS(sleeper.wake(), InvalidArgument);  // although it is awake
    CHECK_THROWS_AS(static_cast<void>(test.memory->create_pool({.name = "new"})), InvalidArgument);
    CHECK_THROWS_AS(static_cast<void>(test.memory->pool_snapshots()), InvalidArgument);
    CHECK_THROWS_AS(static_cast<void>(test.memory->snapshot()), InvalidArgument);
    const std::string refusal = message_of<InvalidArgument>([&] { test.memory->validate(); });
    CHECK(contains(refusal,
                   "validate() is called by on_map or on_unmap; accepted there: allocations from "
                   "cached memory, frees, record_stream(), record_use(), retire_stream(), owns(), "
                   "find(), properties(), counters(), set_limits() and set_on_pressure()"));
    test.memory->record_stream(recorded.data(), other);
    test.memory->record_use(recorded.data(), other);
    test.memory->retire_stream(other);
    test.memory->set_limits({});
    test.memory->set_on_pressure(nullptr);
    const Allocation cached = test.memory->allocate(1_MiB, test.stream);
    CHECK(range.bytes > 0);
  };
  const Allocation block = test.memory->allocate(50_MiB, test.stream);
  CHECK(calls > 0);
  check_whole(*test.memory);
  test.watch.in_callback = [](const MappedRange&) {};
}

TEST_CASE("a stream may end in a callback, and its memory is reused once the device is idle") {
  WatchedMemory test;
  Stream ending{test.context, {}};
  test.memory->allocate(20_MiB, ending).reset();
  bool has_ended = false;
  test.watch.in_callback = [&](const MappedRange&) {
    if (!std::exchange(has_ended, true)) test.memory->retire_stream(ending);
  };
  test.memory->allocate(50_MiB, test.stream).reset();
  CHECK(has_ended);
  test.watch.in_callback = [](const MappedRange&) {};
  test.memory->trim();
  CHECK(test.memory->counters().bytes_reserved.current == 0);
  CHECK(test.reports.mention("on_map or on_unmap"));
}

TEST_CASE("memory that the driver refuses to unmap is withdrawn, and announced again") {
  WatchedMemory test;
  test.memory->allocate(4_MiB, test.stream).reset();
  test.watch.refuses_call = [] { return true; };
  CHECK_THROWS_AS(test.memory->trim(), DriverError);
  test.watch.refuses_call = [] { return false; };
  CHECK(test.watch.unmaps() > 0);
  CHECK(test.watch.bytes_announced() == 4_MiB);
  CHECK(test.memory->counters().bytes_reserved.current == 4_MiB);
  const Allocation again = test.memory->allocate(4_MiB, test.stream);
  CHECK(test.watch.bytes_mapped() == 4_MiB);
  test.watch.check();
}

TEST_CASE("granules that on_map refuses after a refused unmap are not used before they are known") {
  WatchedMemory test;
  test.memory->allocate(4_MiB, test.stream).reset();
  test.watch.refuses_unmap = true;
  test.watch.refuses_range = [] { return true; };
  CHECK_THROWS_AS(test.memory->trim(), DriverError);
  CHECK(test.watch.nothing_announced());
  CHECK(test.watch.bytes_mapped() == 4_MiB);
  CHECK(test.memory->counters().bytes_reserved.current == 4_MiB);
  test.watch.refuses_range = [] { return false; };
  Allocation again = test.memory->allocate(4_MiB, test.stream);
  CHECK(test.watch.bytes_announced() == 4_MiB);
  CHECK(test.watch.bytes_mapped() == 4_MiB);
  again.reset();
  test.watch.refuses_range = [] { return true; };
  CHECK_THROWS_AS(test.memory->trim(), DriverError);
  test.watch.refuses_unmap = false;
  test.memory->trim();  // tries again to unmap them
  CHECK(test.watch.bytes_mapped() == 0);
}

TEST_CASE("a segment that the driver does not take back stays announced") {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    WatchedMemory test(virtual_memory);
    MemoryPool pool = test.memory->create_pool({.name = "shared", .contiguous = true});
    Allocation block = pool.allocate(30_MiB, test.stream);
    void* const data = block.data();
    block.reset();
    test.watch.refuses_call = [] { return true; };
    CHECK_THROWS_AS(pool.trim(), DriverError);
    test.watch.refuses_call = [] { return false; };
    CHECK(test.watch.is_announced(data));
    test.watch.check();
  }
}

TEST_CASE("a segment that neither on_map nor the driver accepts serves a later request") {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    WatchedMemory test(virtual_memory);
    MemoryPool pool = test.memory->create_pool({.name = "shared", .contiguous = true});
    test.watch.refuses_range = [] { return true; };
    test.watch.refuses_unmap = true;
    CHECK_THROWS_AS(static_cast<void>(pool.allocate(20_MiB, test.stream)), MappingWatch::Refused);
    CHECK(test.watch.nothing_announced());
    CHECK(test.watch.bytes_mapped() == 20_MiB);
    CHECK(pool.counters().bytes_reserved.current == 20_MiB);
    test.watch.refuses_range = [] { return false; };

    // It is too small for this request, and the driver still refuses it.
    const Allocation large = pool.allocate(30_MiB, test.stream);
    CHECK(test.watch.bytes_mapped() == 50_MiB);
    Allocation same = pool.allocate(20_MiB, test.stream);
    CHECK(test.watch.bytes_mapped() == 50_MiB);
    CHECK(test.watch.is_announced(same.data()));
    test.watch.check();

    test.watch.refuses_range = [] { return true; };
    CHECK_THROWS_AS(static_cast<void>(pool.allocate(20_MiB, test.stream)), MappingWatch::Refused);
    CHECK(test.watch.bytes_mapped() == 70_MiB);
    test.watch.refuses_range = [] { return false; };
    test.watch.refuses_unmap = false;
    const Allocation other = pool.allocate(24_MiB, test.stream);  // the driver accepts it now
    CHECK(test.watch.bytes_mapped() == 74_MiB);
    test.watch.refuses_range = [] { return true; };
    test.watch.refuses_unmap = true;
    CHECK_THROWS_AS(static_cast<void>(pool.allocate(20_MiB, test.stream)), MappingWatch::Refused);
    test.watch.refuses_unmap = false;  // and at the end: the simulator reports leaks
  }
}

TEST_CASE(
    "a segment that on_map refuses after a refused unmap is not used before it is announced") {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    WatchedMemory test(virtual_memory);
    MemoryPool pool = test.memory->create_pool({.name = "shared", .contiguous = true});
    pool.allocate(30_MiB, test.stream).reset();
    test.watch.refuses_unmap = true;
    test.watch.refuses_range = [] { return true; };
    CHECK_THROWS_AS(pool.trim(), DriverError);
    CHECK(test.reports.mention("on_map has failed: the library cannot register it"));
    CHECK(test.watch.nothing_announced());
    CHECK(test.watch.bytes_mapped() == 30_MiB);
    CHECK_THROWS_AS(pool.trim(), DriverError);
    CHECK(test.watch.unmaps() == 1);
    test.watch.refuses_range = [] { return false; };
    Allocation block = pool.allocate(30_MiB, test.stream);
    CHECK(test.watch.is_announced(block.data()));
    CHECK(test.watch.bytes_mapped() == 30_MiB);
    block.reset();
    test.watch.refuses_unmap = false;
    CHECK(pool.trim() == 30_MiB);
    CHECK(test.watch.unmaps() == 2);
    CHECK(test.watch.nothing_announced());
    CHECK(test.watch.bytes_mapped() == 0);
  }
}

namespace {

/// Random requests of four pools, while calls of the driver and of on_map fail.
class Program final : public RandomProgram {
 public:
  Program(std::uint64_t seed, bool virtual_memory)
      : RandomProgram(seed),
        virtual_memory_(virtual_memory),
        test_(virtual_memory, 96_MiB),
        streams_{&test_.stream, &other_} {
    pools_.push_back(test_.memory->create_pool({.name = "sleeper"}));
    pools_.push_back(test_.memory->create_pool({.name = "graphs", .for_graphs = true}));
    add_contiguous();
    test_.watch.refuses_call = [this] { return fails_ && random_.one_in(12); };
    test_.watch.refuses_range = [this] { return fails_ && random_.one_in(12); };
  }
  ~Program() {
    fails_ = false;
    blocks_.clear();
  }

  void step() {
    static constexpr Operation<Program> kOperations[] = {
        {5, "free a block", &Program::free_block},
        {1, "trim", &Program::trim},
        {1, "release what is unused", &Program::release_unused},
        {1, "sleep", &Program::sleep},
        {1, "wake", &Program::wake},
        {1, "free half", &Program::free_half},
        {2, "allocate", &Program::allocate},
    };
    fails_ = random_.one_in(3);
    try {
      do_one_of(kOperations);
    } catch (const Error&) {                  // memory is short, or a call has failed
    } catch (const MappingWatch::Refused&) {  // on_map
    }
    test_.watch.check();
    if (random_.one_in(16)) check_whole(*test_.memory);
  }
  void finish() const { CHECK(watch().unmaps() > 10); }
  [[nodiscard]] const MappingWatch& watch() const { return test_.watch; }

 private:
  void add_contiguous() {
    pools_.push_back(test_.memory->create_pool({.name = "shared", .contiguous = true}));
  }
  Allocator& some_pool() {
    const std::size_t chosen = random_.below(pools_.size() + 2);
    return chosen < pools_.size() ? static_cast<Allocator&>(pools_[chosen]) : *test_.memory;
  }
  void allocate() {
    Allocator& pool = some_pool();
    const std::size_t bytes = 1 + random_.below(12_MiB);
    const StreamRef stream = *streams_[random_.below(2)];
    blocks_.emplace_back(pool, pool.allocate_raw(bytes, stream), bytes);
  }
  void free_block() {
    if (blocks_.empty()) return;
    std::swap(blocks_[random_.below(blocks_.size())], blocks_.back());
    blocks_.pop_back();
  }
  void free_half() {
    std::erase_if(blocks_, [](const Allocation& block) { return block.bytes() % 2 == 0; });
  }
  void trim() { some_pool().trim(random_.below(64_MiB)); }
  void release_unused() { test_.memory->release_unused(std::chrono::seconds(0)); }
  void sleep() {
    if (virtual_memory_) pools_.front().sleep();
  }
  void wake() { pools_.front().wake(); }

  const bool virtual_memory_;
  bool fails_ = false;
  WatchedMemory test_;
  Stream other_{test_.context, {}};
  std::vector<const Stream*> streams_;
  std::vector<MemoryPool> pools_;
  std::vector<Allocation> blocks_;
};

}  // namespace

TEST_CASE("random programs: each mapped byte is announced once, whatever the driver refuses") {
  std::size_t aliases = 0;
  for_each_seed([&](std::uint64_t seed) {
    for (const bool virtual_memory : {true, false}) {
      CAPTURE(virtual_memory);
      Program program(seed, virtual_memory);
      run_to_the_end(program, operations(1200));
      aliases += program.watch().aliases();
    }
  });
  CHECK(aliases > 0);
}

}  // namespace mapping_notices_test
