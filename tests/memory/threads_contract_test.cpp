// SPDX-License-Identifier: Apache-2.0
// One allocator under several threads. Each block that is handed out is entered in one table and
// taken out of it before it is freed: two live blocks that overlap are found at once.
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"

namespace threads_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr int kRounds = 1500;

class LiveBlocks {
 public:
  void enter(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto [at, fresh] = ends_.emplace(address_of(data), address_of(data) + bytes);
    const auto next = std::next(at);
    const bool clear_after = next == ends_.end() || next->first >= at->second;
    const bool clear_before = at == ends_.begin() || std::prev(at)->second <= at->first;
    if (!fresh || !clear_after || !clear_before) ++overlaps_;
  }
  void leave(const void* data) {
    const std::lock_guard lock(mutex_);
    ends_.erase(address_of(data));
  }
  [[nodiscard]] int overlaps() const {
    const std::lock_guard lock(mutex_);
    return overlaps_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> ends_;
  int overlaps_ = 0;
};

/// Sizes as programs have them: mostly small, sometimes large.
std::size_t some_bytes(std::minstd_rand& random) {
  const std::size_t kind = random() % 16;
  if (kind < 12) return 1 + random() % 8192;
  if (kind < 15) return 1 + random() % 1_MiB;
  return 1 + random() % 8_MiB;
}

/// Allocates and frees on one stream, keeping up to 24 blocks.
void hammer(DeviceAllocator& memory, StreamRef stream, StreamRef user, LiveBlocks& live,
            unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<Allocation> blocks;
  for (int round = 0; round < kRounds; ++round) {
    if (blocks.size() < 24 && random() % 2 == 0) {
      blocks.push_back(memory.allocate(some_bytes(random), stream));
      live.enter(blocks.back().data(), blocks.back().bytes());
    } else if (!blocks.empty()) {
      const std::size_t index = random() % blocks.size();
      std::swap(blocks[index], blocks.back());
      if (random() % 8 == 0) blocks.back().record_stream(user);
      if (random() % 8 == 0) blocks.back().record_use(user);
      live.leave(blocks.back().data());
      blocks.pop_back();
    }
  }
  for (const Allocation& block : blocks) live.leave(block.data());
}

sim::Config random_progress() {
  sim::Config config;
  config.progress = sim::Progress::random;
  return config;
}

void check_after(const MemoryTest& test, const LiveBlocks& live) {
  CHECK(live.overlaps() == 0);
  CHECK(test.counters().blocks_allocated.current == 0);
  CHECK(test.counters().allocations == test.counters().frees);
  check_whole(test.memory);
  test.memory.trim();
  check_whole(test.memory);
  CHECK(test.counters().bytes_requested.current == 0);
}

}  // namespace

TEST_CASE("two threads on streams of their own never get overlapping blocks") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(random_progress(), options);
    const Stream streams[] = {test.stream(), test.stream()};
    LiveBlocks live;
    std::thread other([&] { hammer(test.memory, streams[1], streams[0], live, 2); });
    hammer(test.memory, streams[0], streams[1], live, 1);
    other.join();
    check_after(test, live);
  });
}

TEST_CASE("two threads on one stream never get overlapping blocks") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(random_progress(), options);
    const Stream stream = test.stream();
    const Stream user = test.stream();
    LiveBlocks live;
    std::thread other([&] { hammer(test.memory, stream, user, live, 3); });
    hammer(test.memory, stream, user, live, 4);
    other.join();
    check_after(test, live);
  });
}

TEST_CASE("blocks allocated on one thread and freed on another all come back") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(random_progress(), options);
    const Stream stream = test.stream();
    LiveBlocks live;
    std::mutex mutex;
    std::vector<Allocation> handed_over;
    std::atomic<bool> done{false};
    std::thread consumer([&] {
      while (true) {
        const bool last = done;
        std::vector<Allocation> taken;
        {
          const std::lock_guard lock(mutex);
          taken.swap(handed_over);
        }
        for (Allocation& block : taken) {
          live.leave(block.data());
          block.reset();
        }
        if (last) break;
        std::this_thread::yield();
      }
    });
    std::minstd_rand random(5);
    for (int round = 0; round < kRounds; ++round) {
      Allocation block = test.memory.allocate(some_bytes(random), stream);
      live.enter(block.data(), block.bytes());
      const std::lock_guard lock(mutex);
      handed_over.push_back(std::move(block));
    }
    done = true;
    consumer.join();
    check_after(test, live);
  });
}

TEST_CASE("trim, snapshots, counters and limits work while threads allocate") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    MemoryTest test(random_progress(), options);
    const Stream stream = test.stream();
    const Stream user = test.stream();
    LiveBlocks live;
    std::atomic<bool> done{false};
    std::size_t discrepancies = 0;
    std::thread observer([&] {
      while (!done) {
        discrepancies += find_discrepancies(test.memory.snapshot()).size();
        test.memory.validate();
        test.memory.trim(16_MiB);
        test.memory.reset_peaks();
        test.memory.set_limits({.bytes_reserved_max = 1_GiB});
        discrepancies += test.memory.counters().bytes_reserved.current > 1_GiB ? 1 : 0;
        test.memory.trim();
      }
    });
    hammer(test.memory, stream, user, live, 6);
    done = true;
    observer.join();
    CHECK(discrepancies == 0);
    check_after(test, live);
  });
}

TEST_CASE("threads that run out of memory together fail only by OutOfMemory, and leave no trace") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    sim::Config config = small_device(128_MiB, sim::Progress::random);
    MemoryTest test(config, options);
    const Stream streams[] = {test.stream(), test.stream()};
    LiveBlocks live;
    const auto greedy = [&](const Stream& stream, unsigned seed) {
      std::minstd_rand random(seed);
      for (int round = 0; round < 60; ++round) {
        std::vector<Allocation> blocks;
        while (blocks.size() < 12) {
          Result<Allocation> block = test.memory.try_allocate(1 + random() % 24_MiB, stream);
          if (!block) {
            CHECK(block.error().code() == Errc::out_of_memory);
            break;
          }
          live.enter(block.value().data(), block.value().bytes());
          blocks.push_back(std::move(block).value());
        }
        for (const Allocation& block : blocks) live.leave(block.data());
      }
    };
    std::thread other([&] { greedy(streams[1], 8); });
    greedy(streams[0], 7);
    other.join();
    check_after(test, live);
    CHECK(test.memory.allocate(100_MiB, streams[0]));
  });
}

}  // namespace threads_contract_test
