// SPDX-License-Identifier: Apache-2.0
// Which thread has which part, and what happens to parts when threads and owners end in any order.
#include "base/per_thread.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace per_thread_test {

using namespace berth;

namespace {

class Part {
 public:
  [[nodiscard]] BiasedLock& lock() { return lock_; }
  std::uint64_t uses = 0;

 private:
  BiasedLock lock_;
};
using Parts = PerThread<Part>;

struct Owner {
  Mutex mutex;
  std::vector<const Part*> ended;  ///< guarded by `mutex`
  std::uint64_t uses = 0;          ///< likewise: of parts that were settled
  Parts parts{mutex, [this](Part& part) {
                ended.push_back(&part);
                settle(part);
              }};

  void settle(Part& part) { uses += std::exchange(part.uses, 0); }
  [[nodiscard]] std::size_t count() {
    const MutexLock lock(mutex);
    const Parts::ExclusiveAccess exclusive(parts);
    std::size_t parts_there = 0;
    exclusive.for_each([&](Part&) { ++parts_there; });
    return parts_there;
  }
};

/// Runs `action` on a thread of its own, from its beginning to its end.
template <class Action>
void on_thread(Action&& action) {
  std::thread(std::forward<Action>(action)).join();
}

bool is_missing() {
  if (BiasedLock::is_available()) return false;
  MESSAGE("no membarrier here: there are no parts");
  return true;
}

}  // namespace

TEST_CASE("a thread has no part until its first access, and the same part afterwards") {
  if (is_missing()) return;
  Owner owner;
  CHECK(owner.parts.local() == nullptr);
  Part* const part = owner.parts.local_or_new();
  REQUIRE(part != nullptr);
  CHECK(owner.parts.local() == part);
  CHECK(owner.parts.local_or_new() == part);
  CHECK(owner.count() == 1);
}

TEST_CASE("each thread has a part of its own with each owner") {
  if (is_missing()) return;
  Owner first;
  Owner second;
  Part* const here = first.parts.local_or_new();
  CHECK(second.parts.local() == nullptr);
  Part* const with_second = second.parts.local_or_new();
  CHECK(with_second != here);
  on_thread([&] {
    CHECK(first.parts.local() == nullptr);
    Part* const there = first.parts.local_or_new();
    CHECK(there != nullptr);
    CHECK(there != here);
    CHECK(first.parts.local() == there);
    CHECK(second.parts.local() == nullptr);
    CHECK(first.count() == 2);
    CHECK(second.count() == 1);
  });
  CHECK(first.parts.local() == here);
  CHECK(second.parts.local() == with_second);
}

TEST_CASE(
    "a thread that ends hands its part over to each owner, under its lock, and only its own") {
  if (is_missing()) return;
  Owner first;
  Owner second;
  first.parts.local_or_new();
  Part* theirs = nullptr;
  on_thread([&] {
    theirs = first.parts.local_or_new();
    theirs->uses += 1;
    second.parts.local_or_new()->uses += 1;
  });
  CHECK(first.ended == std::vector<const Part*>{theirs});
  CHECK(first.uses == 1);
  CHECK(second.ended.size() == 1);
  CHECK(second.uses == 1);
  CHECK(first.count() == 1);
  CHECK(second.count() == 0);
}

TEST_CASE("the end of a thread is reported to the owner under its lock") {
  if (is_missing()) return;
  Mutex mutex;
  bool was_locked = false;
  Parts parts(mutex, [&](Part&) {
    on_thread([&] {
      const bool is_free = mutex.try_lock();
      if (is_free) mutex.unlock();
      was_locked = !is_free;
    });
  });
  on_thread([&] { parts.local_or_new(); });
  CHECK(was_locked);
}

TEST_CASE("the end of a thread is not reported to an owner that it never used") {
  Owner owner;
  on_thread([&] { CHECK(owner.parts.local() == nullptr); });
  CHECK(owner.ended.empty());
}

TEST_CASE("threads keep no part of a destroyed owner and do not report their end to it") {
  if (is_missing()) return;
  std::atomic<int> step = 0;
  const auto wait_for = [&](int wanted) {
    while (step != wanted) std::this_thread::yield();
  };
  auto former = std::make_unique<Owner>();
  std::optional<Owner> later;
  former->parts.local_or_new();
  std::thread other([&] {
    former->parts.local_or_new();
    step = 1;
    wait_for(2);
    // It has the place that the former one had.
    CHECK(later->parts.local() == nullptr);
    CHECK(later->parts.local_or_new() != nullptr);
  });
  wait_for(1);
  former.reset();
  later.emplace();
  CHECK(later->parts.local() == nullptr);
  step = 2;
  other.join();
  CHECK(later->ended.size() == 1);
  CHECK(later->count() == 0);
}

TEST_CASE("an owner beyond the maximum has no parts until another owner ends") {
  if (is_missing()) return;
  std::deque<std::unique_ptr<Owner>> owners;
  for (int index = 0; index < 300; ++index) owners.push_back(std::make_unique<Owner>());
  std::size_t with = 0;
  while (with < owners.size() && owners[with]->parts.local_or_new() != nullptr) ++with;
  CHECK(with > 0);
  REQUIRE(with < owners.size());
  for (std::size_t index = with; index < owners.size(); ++index) {
    CHECK(owners[index]->parts.local_or_new() == nullptr);
    CHECK(owners[index]->parts.local() == nullptr);
    CHECK(owners[index]->count() == 0);
  }
  owners.pop_back();  // one that went without makes no room
  owners.push_back(std::make_unique<Owner>());
  CHECK(owners.back()->parts.local_or_new() == nullptr);
  owners.pop_front();
  owners.push_back(std::make_unique<Owner>());
  CHECK(owners.back()->parts.local_or_new() != nullptr);
  on_thread([&] {
    for (const auto& owner : owners) owner->parts.local_or_new();
  });
  std::size_t told = 0;
  for (const auto& owner : owners) told += owner->ended.size();
  CHECK(told == with);
}

namespace {

/// Uses an owner when its thread ends.
struct AtThreadEnd {
  Parts* parts = nullptr;
  std::atomic<int>* has_part = nullptr;
  ~AtThreadEnd() {
    if (parts == nullptr) return;
    *has_part = parts->local_or_new() != nullptr && parts->local() != nullptr ? 1 : 0;
  }
};
thread_local AtThreadEnd at_thread_end;

}  // namespace

TEST_CASE("an access after the parts of an ending thread are gone creates no new part") {
  if (is_missing()) return;
  Owner owner;
  for (const bool is_before : {true, false}) {
    CAPTURE(is_before);
    std::atomic<int> has_part = -1;
    on_thread([&] {
      if (is_before) owner.parts.local_or_new();
      at_thread_end.parts = &owner.parts;  // made now: it goes before what was made before
      at_thread_end.has_part = &has_part;
      owner.parts.local_or_new();
    });
    CHECK(has_part == (is_before ? 1 : 0));
    CHECK(owner.count() == 0);
  }
}

TEST_CASE("exclusive access keeps threads out of their parts while it lasts") {
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
      Part& part = *owner.parts.local_or_new();
      ++ready;
      std::uint64_t local = 0;
      while (!is_over) {
        if (!part.lock().try_enter()) {
          std::this_thread::yield();
          continue;
        }
        part.uses += 1;  // not atomic
        ++local;
        part.lock().leave();
      }
      entered += local;
    });
  }
  while (ready < kOwners) std::this_thread::yield();
  std::uint64_t changed = 0;
  for (int round = 0; round < kRounds; ++round) {
    const MutexLock lock(owner.mutex);
    const Parts::ExclusiveAccess exclusive(owner.parts);
    exclusive.for_each([&](Part& part) { owner.settle(part); });
    exclusive.for_each([&](Part& part) {
      if (part.uses != 0) ++changed;
    });
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();  // whose ends settle the rest
  CHECK(changed == 0);
  CHECK(owner.uses == entered);
}

TEST_CASE("exclusive access waits for the thread that is inside its part") {
  if (is_missing()) return;
  Owner owner;
  BiasedLock& lock = owner.parts.local_or_new()->lock();
  std::atomic<bool> is_about_to = false;
  std::atomic<bool> is_halted = false;
  REQUIRE(lock.try_enter());
  std::thread other([&] {
    const MutexLock state(owner.mutex);
    is_about_to = true;
    const Parts::ExclusiveAccess exclusive(owner.parts);
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

TEST_CASE("exclusive access leaves the own part open, and opens the others at its end") {
  if (is_missing()) return;
  Owner owner;
  Part& here = *owner.parts.local_or_new();
  std::atomic<int> step = 0;
  const auto wait_for = [&](int wanted) {
    while (step != wanted) std::this_thread::yield();
  };
  std::thread other([&] {
    BiasedLock& lock = owner.parts.local_or_new()->lock();
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
    const Parts::ExclusiveAccess exclusive(owner.parts);
    CHECK(here.lock().try_enter());
    here.lock().leave();
    step = 2;
    wait_for(3);
  }
  step = 4;
  other.join();
}

TEST_CASE("threads and owners that come and go lose nothing that was counted") {
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
            Part& part = *owner->parts.local_or_new();
            for (int round = 0; round < 20; ++round) {
              if (!part.lock().try_enter()) continue;
              part.uses += 1;
              part.lock().leave();
              ++counted;
            }
          }
        };
        use();
        on_thread(use);
        const MutexLock lock(passing.mutex);
        const Parts::ExclusiveAccess exclusive(passing.parts);
        exclusive.for_each([&](Part& part) { passing.settle(part); });
        settled += passing.uses;
      }
    });
  }
  for (int round = 0; round < 500; ++round) {
    const MutexLock lock(lasting.mutex);
    const Parts::ExclusiveAccess exclusive(lasting.parts);
    exclusive.for_each([&](Part& part) { lasting.settle(part); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lasting.count() == 0);
  CHECK(lasting.ended.size() == kThreads * (kGenerations + 1));
  CHECK(lasting.uses + settled == counted);
}

}  // namespace per_thread_test
