// SPDX-License-Identifier: Apache-2.0
#include "base/thread_number.hpp"

#include <set>
#include <thread>

#include <doctest/doctest.h>

namespace thread_number_test {

using namespace berth;

TEST_CASE("a thread keeps its number, and no later thread gets it") {
  std::set<std::uint64_t> numbers{this_thread_number()};
  CHECK(this_thread_number() == *numbers.begin());
  for (int count = 0; count < 100; ++count) {  // which have few std::thread::ids among them
    std::uint64_t number = 0;
    std::thread([&] { number = this_thread_number(); }).join();
    CHECK(number > 0);
    CHECK(numbers.insert(number).second);
  }
}

}  // namespace thread_number_test
