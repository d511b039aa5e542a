// SPDX-License-Identifier: Apache-2.0
#include "capi/callback_gate.hpp"

#include <atomic>
#include <future>
#include <thread>

#include <doctest/doctest.h>

#include "support/child_process.hpp"

namespace callback_gate_test {

using namespace berth;
using namespace berth::capi;
using namespace berth::test;

TEST_CASE("a gate calls functions until it is ended, also inside each other") {
  CallbackGate gate;
  int calls = 0;
  CHECK(gate.call([&] {
    ++calls;
    CHECK(gate.call([&] { ++calls; }));
  }));
  gate.end();
  gate.end();
  CHECK_FALSE(gate.call([&] { ++calls; }));
  CHECK(calls == 2);
}

TEST_CASE("the end of a gate waits for the functions that run") {
  for (int round = 0; round < 20; ++round) {
    CallbackGate gate;
    std::promise<void> entered;
    std::promise<void> may_leave;
    std::atomic<bool> has_left = false;
    std::thread runs([&] {
      gate.call([&] {
        entered.set_value();
        may_leave.get_future().wait();
        has_left = true;
      });
    });
    entered.get_future().wait();
    std::thread ends([&] {
      gate.end();
      CHECK(has_left);
    });
    while (gate.call([] {})) std::this_thread::yield();  // until end() has begun
    CHECK_FALSE(has_left);
    may_leave.set_value();
    ends.join();
    runs.join();
  }
}

TEST_CASE("in a forked child nothing is ended, and nothing waits for the parent's threads") {
  CallbackGate gate;
  std::promise<void> entered;
  std::promise<void> may_leave;
  std::thread runs([&] {
    gate.call([&] {
      entered.set_value();
      may_leave.get_future().wait();
    });
  });
  entered.get_future().wait();
  CHECK(exit_code_without_waiting([&] {
          gate.end();
          return gate.call([] {});
        }) == 0);
  may_leave.set_value();
  runs.join();
}

}  // namespace callback_gate_test
