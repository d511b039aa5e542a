// SPDX-License-Identifier: Apache-2.0
#include "base/biased_lock.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/mutex.hpp"

namespace biased_lock_test {

using namespace berth;

namespace {

/// Keeps the owner out, as another thread must do it.
class Entry {
 public:
  explicit Entry(BiasedLock& lock) : lock_(lock) {
    lock_.forbid();
    BiasedLock::fence();
    lock_.wait_until_left();
  }
  ~Entry() { lock_.permit(); }

 private:
  BiasedLock& lock_;
};

/// Two numbers that are the same whenever nobody is inside.
struct Guarded {
  std::uint64_t a = 0;
  std::uint64_t b = 0;

  void change() {
    ++a;
    ++b;
  }
};

/// The process may lack what a BiasedLock needs: then there is nothing to test.
bool is_missing() {
  if (BiasedLock::is_available()) return false;
  MESSAGE("no membarrier here: nothing is tested");
  return true;
}

}  // namespace

TEST_CASE("the owner enters unless another thread forbids entry") {
  if (is_missing()) return;
  BiasedLock lock;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(lock.try_enter());
    lock.leave();
  }
  {
    const Entry entry(lock);
    CHECK_FALSE(lock.try_enter());
    CHECK_FALSE(lock.try_enter());
    lock.wait_until_left();  // refused entries leave nothing behind
  }
  CHECK(lock.try_enter());
  lock.leave();
}

TEST_CASE("each lock is forbidden individually, and one fence covers all of them") {
  if (is_missing()) return;
  std::array<BiasedLock, 3> locks;
  locks[0].forbid();
  locks[2].forbid();
  BiasedLock::fence();
  locks[0].wait_until_left();
  locks[2].wait_until_left();
  CHECK_FALSE(locks[0].try_enter());
  CHECK(locks[1].try_enter());
  CHECK_FALSE(locks[2].try_enter());
  locks[0].permit();
  CHECK(locks[0].try_enter());
  CHECK_FALSE(locks[2].try_enter());
}

TEST_CASE("another thread waits for the owner to leave, and sees the owner's writes") {
  if (is_missing()) return;
  BiasedLock lock;
  int value = 0;  // not atomic: the lock makes it safe
  std::atomic<bool> is_forbidden = false;
  std::atomic<bool> is_in = false;
  REQUIRE(lock.try_enter());
  std::thread other([&] {
    lock.forbid();
    BiasedLock::fence();
    is_forbidden = true;
    lock.wait_until_left();
    is_in = true;
    CHECK(value == 1);
    value = 2;
    lock.permit();
  });
  while (!is_forbidden) std::this_thread::yield();
  for (int turn = 0; turn < 1000; ++turn) {
    std::this_thread::yield();
    CHECK_FALSE(is_in.load());
  }
  value = 1;
  lock.leave();
  while (!lock.try_enter()) std::this_thread::yield();
  CHECK(value == 2);
  lock.leave();
  other.join();
}

TEST_CASE(
    "the owner and several others, which take turns behind a mutex, are never inside together") {
  if (is_missing()) return;
  constexpr int kOthers = 3;
  constexpr int kRounds = 3000;
  BiasedLock lock;
  Mutex mutex;
  Guarded guarded;
  std::atomic<int> others_left = kOthers;
  std::atomic<int> torn = 0;
  std::vector<std::thread> others;
  for (int index = 0; index < kOthers; ++index) {
    others.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const MutexLock turn(mutex);
        const Entry entry(lock);
        if (guarded.a != guarded.b) ++torn;
        guarded.change();
      }
      --others_left;
    });
  }
  std::uint64_t entered = 0;
  std::uint64_t refused = 0;
  while (others_left > 0 || entered < 100'000) {
    if (lock.try_enter()) {
      if (guarded.a != guarded.b) ++torn;
      guarded.change();
      ++entered;
      lock.leave();
    } else {
      ++refused;
      const MutexLock turn(mutex);  // nobody else is inside then: the owner needs no entry
      guarded.change();
    }
  }
  for (std::thread& other : others) other.join();
  CHECK(torn == 0);
  CHECK(guarded.a == entered + refused + kOthers * kRounds);
  CHECK(guarded.b == guarded.a);
}

}  // namespace biased_lock_test
