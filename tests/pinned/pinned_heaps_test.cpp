// SPDX-License-Identifier: Apache-2.0
// Heaps of pinned memory by NUMA node and kind, behind one allocator.
#include "pinned/pinned_heaps.hpp"

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/statistics.hpp"

#include "pinned/pinned_fixture.hpp"

namespace pinned_heaps_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr PinnedOptions kWriteCombined = {.kind = PinnedKind::write_combined};

PinnedOptions near(int device) {
  return {.near = Device::cuda(device)};
}

}  // namespace

TEST_CASE("on a machine with one NUMA node all portable memory is in one heap") {
  sim::Config config;
  config.devices = 2;
  PinnedTest test(config);
  const Allocation a = test.memory.allocate(1000);
  const Allocation b = test.memory.allocate(1000, near(1));
  const Allocation c = test.memory.allocate(1000, near(0));
  CHECK(test.memory.snapshot().segments.size() == 1);
  CHECK(test.memory.find(b.data())->numa_node == 0);
  CHECK(test.reports.all().empty());
  check_whole(test.memory);
}

TEST_CASE("a snapshot adds up while memory passes from kind to kind") {
  PinnedTest test(sim::Config{}, {.segment_bytes = 64_KiB});
  std::vector<Allocation> kept;  // a snapshot takes as long as memory needs to change its kind
  for (int i = 0; i < 500; ++i) {
    kept.push_back(test.memory.allocate(512));
    kept.push_back(test.memory.allocate(512, kWriteCombined));
  }
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (const PinnedKind kind : {PinnedKind::portable, PinnedKind::write_combined})
    threads.emplace_back([&, kind] {
      for (std::size_t i = 0; !ends; ++i) {
        test.memory.allocate(64_KiB * (1 + i % 7), PinnedOptions{.kind = kind}).reset();
        test.memory.trim();
      }
    });
  int wrong = 0;
  for (int i = 0; i < 5000; ++i)
    if (!find_discrepancies(test.memory.snapshot()).empty()) ++wrong;
  ends = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("blocks near devices of different nodes do not mix") {
  PinnedTest test(machine_of_nodes(2));
  test.errors_expected = true;  // warnings: the machine that runs this may lack node 1
  std::vector<Allocation> blocks;
  for (int round = 0; round < 20; ++round) {
    for (const int device : {0, 1}) blocks.push_back(test.memory.allocate(100'000, near(device)));
  }
  const MemorySnapshot snapshot = test.memory.snapshot();
  REQUIRE(snapshot.segments.size() == 2);
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const auto found = test.memory.find(blocks[index].data());
    REQUIRE(found.has_value());
    CHECK(found->numa_node == static_cast<int>(index % 2));
    const std::uintptr_t address = address_of(blocks[index].data());
    for (const SegmentInfo& segment : snapshot.segments) {
      const bool inside = segment.address <= address && address < segment.address + segment.bytes;
      if (inside) CHECK(segment.numa_node == found->numa_node);
    }
  }
  check_whole(test.memory);
  blocks.clear();
  CHECK(test.counters().blocks_allocated.current == 0);
  // Freed memory stays with its node.
  const Allocation again = test.memory.allocate(100'000, near(1));
  CHECK(test.memory.find(again.data())->numa_node == 1);
  CHECK(test.counters().segments_mapped == 2);
  test.memory.trim();
  check_whole(test.memory);
}

TEST_CASE("memory is near the calling thread's current device by default") {
  PinnedTest test(machine_of_nodes(3));
  test.errors_expected = true;
  CHECK(test.memory.find(test.memory.allocate(1000).data())->numa_node == 0);
  for (const int device : {2, 0, 1}) {
    const DeviceGuard guard(test.runtime->devices(), Device::cuda(device));
    CHECK(test.memory.find(test.memory.allocate(1000).data())->numa_node == device);
    CHECK(test.memory.find(test.memory.allocate(1000, near(1)).data())->numa_node == 1);
    const Allocation current = test.memory.allocate(1000, {.near = Device::cuda()});
    CHECK(test.memory.find(current.data())->numa_node == device);
  }
}

TEST_CASE("memory near a device without a known NUMA node is not bound") {
  sim::Config config = machine_of_nodes(2);
  config.numa = {-1, 0};
  PinnedTest test(config);
  const Allocation anywhere = test.memory.allocate(1000, near(0));
  const Allocation there = test.memory.allocate(1000, near(1));
  CHECK(test.memory.find(anywhere.data())->numa_node == std::nullopt);
  CHECK(test.memory.find(there.data())->numa_node == 0);
  CHECK(test.memory.snapshot().segments.size() == 2);
  CHECK(test.reports.all().empty());
}

TEST_CASE("memory allocated by the driver is not bound to nodes") {
  PinnedTest test(machine_of_nodes(2), {.prefault_threads = 0});
  const Allocation a = test.memory.allocate(1000, near(0));
  const Allocation b = test.memory.allocate(1000, near(1));
  CHECK(test.memory.snapshot().segments.size() == 1);
  CHECK(test.memory.find(b.data())->numa_node == std::nullopt);
  CHECK(test.allocations() == 1);
  CHECK(test.reports.all().empty());
}

TEST_CASE("write-combined memory is a heap of its own, allocated by the driver") {
  PinnedTest test;
  const Allocation portable = test.memory.allocate(1000);
  Allocation combined = test.memory.allocate(1000, kWriteCombined);
  CHECK(test.registrations() == 1);
  CHECK(test.allocations() == 1);
  CHECK(test.memory.find(combined.data())->kind == PinnedKind::write_combined);
  CHECK(test.memory.find(portable.data())->kind == PinnedKind::portable);
  std::set<bool> kinds;
  for (const SegmentInfo& segment : test.memory.snapshot().segments)
    kinds.insert(segment.write_combined);
  CHECK(kinds.size() == 2);
  void* const place = combined.data();
  combined.reset();
  CHECK(test.memory.find(place) == std::nullopt);
  const Allocation other = test.memory.allocate(1000);
  CHECK(other.data() != place);
  const Allocation again = test.memory.allocate(1000, kWriteCombined);
  CHECK(again.data() == place);
  check_whole(test.memory);
}

TEST_CASE("frees, stream records and queries find the heap of the block") {
  PinnedTest test(manual_progress(machine_of_nodes(2)));
  test.errors_expected = true;
  const Stream stream = test.stream(1);
  for (const PinnedOptions& options : {near(0), near(1), kWriteCombined}) {
    void* const a = test.memory.allocate_raw(20_MiB, options);
    auto* const inside = static_cast<std::byte*>(a) + 12'345;
    CHECK(test.memory.find_block(inside) == a);
    CHECK(test.memory.find(inside)->data == a);
    CHECK(test.memory.find(inside)->bytes == 20_MiB);
    test.log.submit(stream, "work");
    test.memory.record_stream(a, stream);
    test.memory.record_use(a, stream);
    test.memory.deallocate(a);
    CHECK(test.counters().blocks_pending.current == 1);
    message_of<InvalidArgument>([&] { test.memory.deallocate(a); });
    message_of<InvalidArgument>([&] { test.memory.record_stream(a, stream); });
    const Allocation b = test.memory.allocate(20_MiB, options);
    CHECK(b.data() != a);
    stream.ref().sync();
    const Allocation c = test.memory.allocate(20_MiB, options);
    CHECK(c.data() == a);
    check_whole(test.memory);
  }
  int on_stack = 0;
  CHECK(contains(message_of<InvalidArgument>([&] { test.memory.deallocate(&on_stack); }),
                 "not memory of this allocator"));
}

TEST_CASE("blocks of any heap may be freed on another thread, and reused there") {
  PinnedTest test(machine_of_nodes(2));
  test.errors_expected = true;
  std::vector<void*> blocks;
  for (int index = 0; index < 200; ++index)
    blocks.push_back(test.memory.allocate_raw(4096, near(index % 2)));
  std::thread([&] {
    for (void* const block : blocks) test.memory.deallocate(block);
    for (int device : {0, 1}) {
      const Allocation again = test.memory.allocate(4096, near(device));
      CHECK(test.memory.find(again.data())->numa_node == device);
    }
  }).join();
  CHECK(test.counters().blocks_allocated.current == 0);
  CHECK(test.counters().allocations == 202);
  check_whole(test.memory);
}

TEST_CASE("heaps share the limit, and reclaim cached memory from each other") {
  PinnedTest test(machine_of_nodes(2), {.bytes_reserved_max = 64_MiB});
  test.errors_expected = true;
  { const Allocation gone = test.memory.allocate(40_MiB, near(0)); }
  { const Allocation gone = test.memory.allocate(20_MiB, kWriteCombined); }
  CHECK(test.reserved() == 60_MiB);
  Allocation here = test.memory.allocate(24_MiB, near(1));
  CHECK(test.reserved() == 44_MiB);  // 20 MiB lacked; the larger segment is what the first heap has
  CHECK(test.counters().out_of_memory == 0);
  message_of<OutOfMemory>([&] { return test.memory.allocate(41_MiB, near(0)); });
  check_whole(test.memory);
  here.reset();
  CHECK(test.memory.allocate(64_MiB, near(0)));
  CHECK(test.counters().bytes_reserved.current <= 64_MiB);
  check_whole(test.memory);
}

TEST_CASE("invalid options are refused by name, and nothing changes") {
  PinnedTest test;
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { return test.memory.allocate(1000, {.kind = PinnedKind::registered}); }),
                 "register_memory"));
  CHECK(contains(message_of<InvalidArgument>([&] { return test.memory.allocate(1, near(7)); }),
                 "cuda:7"));
  CHECK(contains(
      message_of<InvalidArgument>([&] { return test.memory.allocate(1, {.near = Device::cpu()}); }),
      "cpu"));
  message_of(test.memory.try_allocate(1, near(7)), Errc::invalid_argument);
  CHECK_FALSE(test.memory.allocate(0, near(7)));
  CHECK(same_levels(test.counters(), MemoryCounters{}));
  CHECK(test.memory.allocate(1000));
}

}  // namespace pinned_heaps_test
