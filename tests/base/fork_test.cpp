// SPDX-License-Identifier: Apache-2.0
// Objects that a forked child keeps until its end.
#include "base/fork.hpp"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "support/child_process.hpp"
#include "support/scarce_memory.hpp"

namespace fork_test {

using namespace berth;
using namespace berth::test;

namespace {

constinit std::atomic<int> fork_destroyed = 0;

struct Noted {
  ~Noted() { ++fork_destroyed; }
};

}  // namespace

TEST_CASE("an object that is kept until exit is not destroyed, with memory for that or without") {
  const auto exit_code = exit_code_without_waiting([] {
    auto first = std::make_unique<Noted>();
    auto second = std::make_unique<Noted>();
    auto third = std::make_shared<Noted>();
    const ScarceMemory scarce(1);
    keep_until_exit(std::move(first));
    keep_until_exit(std::move(second));
    keep_until_exit(std::move(third));
    return first == nullptr && second == nullptr && third == nullptr && fork_destroyed == 0;
  });
  CHECK(exit_code == 0);
}

TEST_CASE("several threads may keep objects at a time") {
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([] {
      for (int round = 0; round < 1000; ++round) keep_until_exit(std::make_shared<int>(round));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(fork_destroyed == 0);
}

}  // namespace fork_test
