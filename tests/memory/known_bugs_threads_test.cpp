// SPDX-License-Identifier: Apache-2.0
// Bug classes known from other allocators, with several threads and in counters: locks held during
// driver calls, counters below zero, unguarded tables, blocks of the wrong size.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "memory/memory_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/second_thread.hpp"

namespace known_bugs_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

/// An allocator that climbs its whole ladder while another thread, during each kind of driver call,
/// asks for memory, looks around and frees: what wants the lock of the allocator's state.
struct LadderWithCompany : AllocatorFixture {
  LadderWithCompany() {
    // A hole in the middle of a granule: of no use to the ladder, and never given back.
    allocate(512_KiB, own);
    void* const hole = allocate(1_MiB, own);
    allocate(512_KiB, own);
    second.run([this, hole] { allocator->deallocate(hole); });
    for (const DriverCall call : calls) {
      tap.before(call, [this, call] {
        met.insert(call);
        second.run([this] {
          // A new size, so that it comes from the heap and not from what the thread keeps.
          void* const data = allocator->allocate(++sizes * kBlockAlignment, own);
          static_cast<void>(allocator->counters());
          static_cast<void>(allocator->owns(data));
          allocator->deallocate(data);
        });
      });
    }
  }

  /// Whether each of `calls` was made on the way.
  bool descend() {
    void* const first = allocate(20_MiB, own);
    free_used_by(first, user, "use");
    void* const second_block = allocate(20_MiB, own);
    void* const of_busy = allocate(12_MiB, busy);
    log.submit(busy, "work");
    free(of_busy);
    allocate(20_MiB, own);  // behind a wait for `busy`
    allocate(20_MiB, own);  // once the host has waited for `user`
    message_of<OutOfMemory>([&] { return allocate(20_MiB, own); });
    free(second_block);
    allocator->trim(0);
    return met == calls;
  }

  const std::set<DriverCall> calls = {
      DriverCall::mem_create,   DriverCall::mem_map,          DriverCall::mem_set_access,
      DriverCall::mem_unmap,    DriverCall::mem_release,      DriverCall::mem_get_info,
      DriverCall::event_record, DriverCall::event_query,      DriverCall::event_synchronize,
      DriverCall::stream_query, DriverCall::stream_wait_event};
  std::set<DriverCall> met;
  Stream own = stream();
  Stream user = stream();
  Stream busy = stream();
  std::size_t sizes = 0;
  SecondThread second;
};

bool stands_at_zero(const Gauge& gauge) {
  return gauge.current == 0 && gauge.peak < std::uint64_t{1} << 40;
}
bool all_at_zero(const MemoryCounters& counters) {
  return stands_at_zero(counters.bytes_requested) && stands_at_zero(counters.bytes_allocated) &&
         stands_at_zero(counters.bytes_active) && stands_at_zero(counters.blocks_allocated) &&
         stands_at_zero(counters.blocks_pending);
}

}  // namespace

// pytorch/pytorch issue 159352. A driver call may take a lock of the language's, or wait for a
// thread that is in the allocator.
TEST_CASE("no lock that an allocation or a free needs is held during a driver call") {
  const auto code = exit_code_of([] {
    alarm(kHangSeconds);  // ends a child that waits for itself
    LadderWithCompany test;
    _exit(test.descend() ? 0 : 1);
    return 0;
  });
  CHECK(code == 0);
}

// pytorch/pytorch issues 135726 (a free that merges) and 169561 (a free that nothing waits for)
TEST_CASE("a free lowers the counters by the bytes of its block, and never below zero") {
  for (const bool has_order : {true, false}) {
    CAPTURE(has_order);
    AllocatorFixture test;
    const Stream own = test.stream();
    const Stream user = test.stream();
    const auto allocate = [&](std::size_t bytes) {
      return has_order ? test.allocate(bytes, own) : test.allocate(bytes, std::nullopt);
    };
    std::vector<void*> blocks;
    for (std::size_t index = 0; index < 8; ++index)
      blocks.push_back(allocate(1_MiB + index * 4096 - 100));
    const std::uint64_t requested = test.counters().bytes_requested.current;
    SecondThread second;  // frees what it never allocated, and stays
    for (const std::size_t index : {0u, 2u, 1u, 7u}) {
      const MemoryCounters before = test.counters();
      const std::size_t bytes = 1_MiB + index * 4096;
      if (index % 2 == 0) {
        second.run([&] { test.allocator->deallocate(blocks[index]); });
      } else {
        test.free(blocks[index]);
      }
      const MemoryCounters after = test.counters();
      CHECK(before.bytes_requested.current - after.bytes_requested.current == bytes - 100);
      CHECK(before.bytes_allocated.current - after.bytes_allocated.current == bytes);
      CHECK(before.bytes_active.current - after.bytes_active.current == bytes);
      CHECK(before.blocks_allocated.current - after.blocks_allocated.current == 1);
      test.allocator->trim(64_MiB);  // gives nothing back, but joins what threads kept
    }
    for (const std::size_t index : {3u, 4u, 5u, 6u}) {
      test.allocator->record_stream(blocks[index], user);
      second.run([&] { test.allocator->deallocate(blocks[index]); });
    }
    CHECK(test.counters().blocks_pending.current == 4);
    CHECK(test.counters().bytes_active.current > 4_MiB);
    CHECK(test.counters().bytes_requested.current == 0);
    test.run_stream(user);
    test.allocator->trim(0);
    CHECK(all_at_zero(test.counters()));
    CHECK(test.counters().bytes_requested.peak == requested);
    CHECK(test.counters().bytes_reserved.current == 0);
  }
}

// pytorch/pytorch issue 153845
TEST_CASE("the tables of recorded streams and of stream handles are guarded") {
  MemoryTest test;
  std::vector<Stream> users;
  for (int index = 0; index < 8; ++index) users.push_back(test.stream());
  constexpr std::size_t kRounds = 5;
  constexpr std::size_t kBlocks = 1000;
  // The threads meet before they record, or they would hardly ever do so at the same time. They
  // look for each other, because one that sleeps is late.
  std::atomic<std::size_t> arrived = 0;
  const auto work = [&] {
    for (std::size_t round = 0; round < kRounds; ++round) {
      const Stream own = test.stream();  // comes and goes, and so do its entries
      void* blocks[kBlocks];
      for (void*& data : blocks) data = test.memory.allocate_raw(512 + 512 * (round % 7), own);
      for (++arrived; arrived < 2 * (round + 1);) std::this_thread::yield();
      for (const Stream& user : users) {
        for (void* const data : blocks) test.memory.record_stream(data, user);
      }
      for (void* const data : blocks) test.memory.deallocate(data);
    }
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(test.counters().allocations == 2 * kRounds * kBlocks);
  CHECK(test.counters().frees_deferred == 2 * kRounds * kBlocks);
  test.memory.trim();
  check_whole(test.memory);
  CHECK(test.counters().frees_reclaimed == 2 * kRounds * kBlocks);
  CHECK(all_at_zero(test.counters()));
}

// The scan in get_free_block of PyTorch's CachingHostAllocator: sizes that are not rounded to
// powers of two share a bucket.
TEST_CASE("a reused pinned block is never smaller than the request") {
  Simulation test;
  PinnedAllocator& memory = test.runtime->pinned_memory();
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 512; bytes <= 1_MiB; bytes += bytes / 3) sizes.push_back(bytes);
  for (int round = 0; round < 6; ++round) {
    std::vector<Allocation> blocks;
    for (const std::size_t size : sizes)
      blocks.push_back(memory.allocate(size + static_cast<std::size_t>(round) * 512 - 1));
    for (std::size_t index = 0; index < blocks.size(); ++index)
      std::memset(blocks[index].data(), static_cast<int>(index + 1), blocks[index].bytes());
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      CAPTURE(index);
      const auto* const bytes = static_cast<const unsigned char*>(blocks[index].data());
      const auto own = static_cast<unsigned char>(index + 1);
      bool holds = true;
      for (std::size_t at = 0; at < blocks[index].bytes(); ++at) holds = holds && bytes[at] == own;
      CHECK(holds);
    }
    check_whole(memory);
  }
}

// Integers that wrap: the cache of a thread counts in units of 512 bytes, 32 bits wide.
TEST_CASE("a size that would overflow does not match a small block") {
  for (const bool has_order : {true, false}) {
    AllocatorFixture test;
    const Stream own = test.stream();
    const auto allocate = [&](std::size_t bytes) {
      return has_order ? test.allocate(bytes, own) : test.allocate(bytes, std::nullopt);
    };
    test.free(allocate(kBlockAlignment));
    for (const std::size_t bytes :
         {(std::size_t{1} << 32) + kBlockAlignment, (std::size_t{1} << 41) + kBlockAlignment,
          ~std::size_t{0}, ~std::size_t{0} - kBlockAlignment + 2}) {
      CAPTURE(bytes);
      message_of<OutOfMemory>([&] { return allocate(bytes); });
    }
    CHECK(test.counters().out_of_memory == 4);
    CHECK(test.counters().blocks_allocated.current == 0);
  }
}

}  // namespace known_bugs_threads_test
