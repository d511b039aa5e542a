// SPDX-License-Identifier: Apache-2.0
#include "base/per_process.hpp"

#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/mutex.hpp"
#include "support/child_process.hpp"

namespace per_process_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Shared {
  Mutex mutex;
  std::vector<int> entries;
};

constinit PerProcess<int> fresh;
constinit PerProcess<Shared> shared;

}  // namespace

TEST_CASE("all threads share one value, and a forked child has its own, unlocked") {
  CHECK(fresh.find() == nullptr);
  const int& made = fresh.get();
  CHECK(fresh.find() == &made);
  Shared& own = shared.get();
  const MutexLock lock(own.mutex);
  own.entries.push_back(1);
  const Shared* elsewhere = nullptr;
  std::thread([&] { elsewhere = &shared.get(); }).join();
  CHECK(elsewhere == &own);
  CHECK(exit_code_without_waiting([&] {
          if (shared.find() != nullptr) return false;
          Shared& childs = shared.get();
          const MutexLock childs_lock(childs.mutex);
          return &childs != &own && childs.entries.empty() && shared.find() == &childs;
        }) == 0);
  CHECK(shared.find() == &own);
}

}  // namespace per_process_test
