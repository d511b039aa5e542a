// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_budget.hpp"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

namespace memory_budget_test {

using namespace berth;

TEST_CASE("a reservation counts for part and whole, and a refused one for neither") {
  MemoryBudget whole({.max = 100});
  MemoryBudget part({.max = 80}, &whole);
  MemoryBudget other({}, &whole);
  CHECK(part.max() == 80);
  CHECK(other.max() == 100);
  CHECK(part.try_reserve(60));
  CHECK(whole.reserved() == 60);
  CHECK_FALSE(part.try_reserve(21));
  CHECK_FALSE(other.try_reserve(41));
  CHECK(part.reserved() == 60);
  CHECK(other.reserved() == 0);
  CHECK(whole.reserved() == 60);
  CHECK(other.try_reserve(40));
  CHECK(whole.reserved() == 100);
  part.give_back(60);
  CHECK(part.reserved() == 0);
  CHECK(whole.reserved() == 40);
}

TEST_CASE("the destructor of a part returns its reservations") {
  MemoryBudget whole({.max = 100});
  std::optional<MemoryBudget> part(std::in_place, MemoryBudget::Limits{}, &whole);
  CHECK(part->try_reserve(70));
  part.reset();
  CHECK(whole.reserved() == 0);
}

TEST_CASE("the soft limit refuses nothing and reports the excess") {
  MemoryBudget whole({.soft_max = 100});
  MemoryBudget part({.soft_max = 50}, &whole);
  MemoryBudget other({}, &whole);
  CHECK(part.beyond_soft_max(50) == 0);
  CHECK(part.beyond_soft_max(51) == 1);
  CHECK(other.try_reserve(90));
  CHECK(part.beyond_soft_max(51) == 41);  // of the whole
  CHECK(part.excess() == 0);
  CHECK(part.try_reserve(30));
  CHECK(part.excess() == 20);
  part.set_limits({.soft_max = 5});
  CHECK(part.excess() == 25);
}

TEST_CASE("a wait for changes ends with a change in any part, and needs one that is under way") {
  MemoryBudget whole({});
  MemoryBudget growing({}, &whole);
  MemoryBudget part({}, &whole);
  MemoryBudget* waiting = nullptr;
  SUBCASE("in the same part") {
    waiting = &growing;
  }
  SUBCASE("in another part") {
    waiting = &part;
  }
  SUBCASE("in the whole") {
    waiting = &whole;
  }
  CHECK_FALSE(waiting->wait_for_changes());
  {
    const MemoryBudget::Change lasting(growing);  // whenever the thread asks, one is under way
    std::atomic<bool> has_ended = false;
    bool has_waited = false;
    std::thread thread([&] {
      has_waited = waiting->wait_for_changes();
      has_ended = true;
    });
    while (!has_ended) {
      const MemoryBudget::Change brief(growing);
      std::this_thread::yield();
    }
    thread.join();
    CHECK(has_waited);
  }
  CHECK_FALSE(waiting->wait_for_changes());
}

}  // namespace memory_budget_test
