// SPDX-License-Identifier: Apache-2.0
// Whose cache is whose, and what becomes of it when threads and allocators begin and end in any order.
#include "memory/thread/thread_caches.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_allocator.hpp"

using namespace berth;

namespace {

/// What an allocator has beside its heap.
struct Owner {
  Mutex mutex;
  std::vector<const ThreadCache*> ended;  ///< guarded by `mutex`
  std::uint64_t allocations = 0;          ///< likewise: of ledgers that were settled
  ThreadCaches caches{mutex, [this](ThreadCache& cache) {
                        ended.push_back(&cache);
                        settle(cache);
                      }};

  void settle(ThreadCache& cache) { allocations += std::exchange(cache.ledger().allocations, 0); }
  [[nodiscard]] std::size_t count() {
    const MutexLock lock(mutex);
    const ThreadCaches::Halt halt(caches);
    std::size_t caches_there = 0;
    halt.for_each([&](ThreadCache&) { ++caches_there; });
    return caches_there;
  }
};

/// Runs `action` on a thread of its own, from its beginning to its end.
template <class Action>
void on_thread(Action&& action) {
  std::thread(std::forward<Action>(action)).join();
}

bool is_missing() {
  if (BiasedLock::is_available()) return false;
  MESSAGE("no membarrier here: there are no caches");
  return true;
}

}  // namespace

TEST_CASE("a thread has no cache until it asks, and the same from then on") {
  if (is_missing()) return;
  Owner owner;
  CHECK(owner.caches.mine() == nullptr);
  ThreadCache* const cache = owner.caches.mine_or_new();
  REQUIRE(cache != nullptr);
  CHECK(owner.caches.mine() == cache);
  CHECK(owner.caches.mine_or_new() == cache);
  CHECK(owner.count() == 1);
}

TEST_CASE("each thread has a cache of its own with each allocator") {
  if (is_missing()) return;
  Owner first;
  Owner second;
  ThreadCache* const here = first.caches.mine_or_new();
  CHECK(second.caches.mine() == nullptr);
  ThreadCache* const with_second = second.caches.mine_or_new();
  CHECK(with_second != here);
  on_thread([&] {
    CHECK(first.caches.mine() == nullptr);
    ThreadCache* const there = first.caches.mine_or_new();
    CHECK(there != nullptr);
    CHECK(there != here);
    CHECK(first.caches.mine() == there);
    CHECK(second.caches.mine() == nullptr);
    CHECK(first.count() == 2);
    CHECK(second.count() == 1);
  });
  CHECK(first.caches.mine() == here);
  CHECK(second.caches.mine() == with_second);
}

TEST_CASE(
    "a thread that ends hands its cache over to each allocator, under its lock, and only its own") {
  if (is_missing()) return;
  Owner first;
  Owner second;
  first.caches.mine_or_new();
  ThreadCache* theirs = nullptr;
  on_thread([&] {
    theirs = first.caches.mine_or_new();
    theirs->ledger().allocated(1, 512);
    second.caches.mine_or_new()->ledger().allocated(1, 512);
  });
  CHECK(first.ended == std::vector<const ThreadCache*>{theirs});
  CHECK(first.allocations == 1);
  CHECK(second.ended.size() == 1);
  CHECK(second.allocations == 1);
  CHECK(first.count() == 1);
  CHECK(second.count() == 0);
}

TEST_CASE("the end of a thread is told under the allocator's lock") {
  if (is_missing()) return;
  Mutex mutex;
  bool was_locked = false;
  ThreadCaches caches(mutex, [&](ThreadCache&) {
    on_thread([&] {
      const bool is_free = mutex.try_lock();
      if (is_free) mutex.unlock();
      was_locked = !is_free;
    });
  });
  on_thread([&] { caches.mine_or_new(); });
  CHECK(was_locked);
}

TEST_CASE("a thread that never used an allocator ends without telling it") {
  Owner owner;
  on_thread([&] { CHECK(owner.caches.mine() == nullptr); });
  CHECK(owner.ended.empty());
}

TEST_CASE("an allocator that ends before its threads leaves them nothing, and is told nothing") {
  if (is_missing()) return;
  std::atomic<int> step = 0;
  const auto wait_for = [&](int wanted) {
    while (step != wanted) std::this_thread::yield();
  };
  auto former = std::make_unique<Owner>();
  std::optional<Owner> later;
  former->caches.mine_or_new();
  std::thread other([&] {
    former->caches.mine_or_new();
    step = 1;
    wait_for(2);
    // It has the place that the former one had.
    CHECK(later->caches.mine() == nullptr);
    CHECK(later->caches.mine_or_new() != nullptr);
  });
  wait_for(1);
  former.reset();
  later.emplace();
  CHECK(later->caches.mine() == nullptr);
  step = 2;
  other.join();
  CHECK(later->ended.size() == 1);
  CHECK(later->count() == 0);
}

TEST_CASE("where there are too many allocators the later ones go without, until others end") {
  if (is_missing()) return;
  std::deque<std::unique_ptr<Owner>> owners;
  for (int index = 0; index < 100; ++index) owners.push_back(std::make_unique<Owner>());
  std::size_t with = 0;
  while (with < owners.size() && owners[with]->caches.mine_or_new() != nullptr) ++with;
  CHECK(with > 0);
  REQUIRE(with < owners.size());
  for (std::size_t index = with; index < owners.size(); ++index) {
    CHECK(owners[index]->caches.mine_or_new() == nullptr);
    CHECK(owners[index]->caches.mine() == nullptr);
    CHECK(owners[index]->count() == 0);
  }
  owners.pop_back();  // one that went without makes no room
  owners.push_back(std::make_unique<Owner>());
  CHECK(owners.back()->caches.mine_or_new() == nullptr);
  owners.pop_front();
  owners.push_back(std::make_unique<Owner>());
  CHECK(owners.back()->caches.mine_or_new() != nullptr);
  on_thread([&] {
    for (const auto& owner : owners) owner->caches.mine_or_new();
  });
  std::size_t told = 0;
  for (const auto& owner : owners) told += owner->ended.size();
  CHECK(told == with);
}

namespace {

/// Uses an allocator when its thread ends.
struct AtThreadEnd {
  ThreadCaches* caches = nullptr;
  std::atomic<int>* has_cache = nullptr;
  ~AtThreadEnd() {
    if (caches == nullptr) return;
    *has_cache = caches->mine_or_new() != nullptr && caches->mine() != nullptr ? 1 : 0;
  }
};
thread_local AtThreadEnd at_thread_end;

}  // namespace

TEST_CASE("what a thread does at its very end, after its caches are gone, makes no new one") {
  if (is_missing()) return;
  Owner owner;
  for (const bool is_before : {true, false}) {
    CAPTURE(is_before);
    std::atomic<int> has_cache = -1;
    on_thread([&] {
      if (is_before) owner.caches.mine_or_new();
      at_thread_end.caches = &owner.caches;  // made now: it goes before what was made before
      at_thread_end.has_cache = &has_cache;
      owner.caches.mine_or_new();
    });
    CHECK(has_cache == (is_before ? 1 : 0));
    CHECK(owner.count() == 0);
  }
}

TEST_CASE("a halt keeps the owners out, of all caches, as long as it lasts") {
  if (is_missing()) return;
  constexpr int kOwners = 3;
  constexpr int kRounds = 2000;
  Owner owner;
  std::atomic<int> ready = 0;
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> entered = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < kOwners; ++index) {
    threads.emplace_back([&] {
      ThreadCache& cache = *owner.caches.mine_or_new();
      ++ready;
      std::uint64_t mine = 0;
      while (!is_over) {
        if (!cache.lock().try_enter()) {
          std::this_thread::yield();
          continue;
        }
        cache.ledger().allocated(1, 512);  // not atomic
        ++mine;
        cache.lock().leave();
      }
      entered += mine;
    });
  }
  while (ready < kOwners) std::this_thread::yield();
  std::uint64_t changed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const MutexLock lock(owner.mutex);
    const ThreadCaches::Halt halt(owner.caches);
    halt.for_each([&](ThreadCache& cache) { owner.settle(cache); });
    halt.for_each([&](ThreadCache& cache) {
      if (cache.ledger().allocations != 0) ++changed;
    });
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();  // whose ends settle the rest
  CHECK(changed == 0);
  CHECK(owner.allocations == entered);
}

TEST_CASE("a halt waits for the owner that is inside") {
  if (is_missing()) return;
  Owner owner;
  BiasedLock& lock = owner.caches.mine_or_new()->lock();
  std::atomic<bool> is_about_to = false;
  std::atomic<bool> is_halted = false;
  REQUIRE(lock.try_enter());
  std::thread other([&] {
    const MutexLock state(owner.mutex);
    is_about_to = true;
    const ThreadCaches::Halt halt(owner.caches);
    is_halted = true;
  });
  while (!is_about_to) std::this_thread::yield();
  for (int turn = 0; turn < 5000; ++turn) {
    std::this_thread::yield();
    CHECK_FALSE(is_halted.load());
  }
  lock.leave();
  other.join();
  CHECK(is_halted);
}

TEST_CASE("a thread that halts keeps its own cache open, and others open again afterwards") {
  if (is_missing()) return;
  Owner owner;
  ThreadCache& here = *owner.caches.mine_or_new();
  std::atomic<int> step = 0;
  const auto wait_for = [&](int wanted) {
    while (step != wanted) std::this_thread::yield();
  };
  std::thread other([&] {
    BiasedLock& lock = owner.caches.mine_or_new()->lock();
    step = 1;
    wait_for(2);
    CHECK_FALSE(lock.try_enter());
    step = 3;
    wait_for(4);
    CHECK(lock.try_enter());
    lock.leave();
  });
  wait_for(1);
  {
    const MutexLock lock(owner.mutex);
    const ThreadCaches::Halt halt(owner.caches);
    CHECK(here.lock().try_enter());
    here.lock().leave();
    step = 2;
    wait_for(3);
  }
  step = 4;
  other.join();
}

TEST_CASE("threads and allocators that come and go lose nothing that was counted") {
  if (is_missing()) return;
  constexpr int kThreads = 4;
  constexpr int kGenerations = 60;
  std::atomic<std::uint64_t> counted = 0;
  std::atomic<std::uint64_t> settled = 0;
  Owner lasting;
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&] {
      for (int generation = 0; generation < kGenerations; ++generation) {
        Owner passing;  // used by this thread, and by one that is over before it
        const auto use = [&] {
          for (Owner* owner : {&lasting, &passing}) {
            ThreadCache& cache = *owner->caches.mine_or_new();
            for (int round = 0; round < 20; ++round) {
              if (!cache.lock().try_enter()) continue;
              cache.ledger().allocated(1, 512);
              cache.lock().leave();
              ++counted;
            }
          }
        };
        use();
        on_thread(use);
        const MutexLock lock(passing.mutex);
        const ThreadCaches::Halt halt(passing.caches);
        halt.for_each([&](ThreadCache& cache) { passing.settle(cache); });
        settled += passing.allocations;
      }
    });
  }
  for (int round = 0; round < 500; ++round) {
    const MutexLock lock(lasting.mutex);
    const ThreadCaches::Halt halt(lasting.caches);
    halt.for_each([&](ThreadCache& cache) { lasting.settle(cache); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lasting.count() == 0);
  CHECK(lasting.ended.size() == kThreads * (kGenerations + 1));
  CHECK(lasting.allocations + settled == counted);
}
