// SPDX-License-Identifier: Apache-2.0
// Observers that are added and removed while streams are destroyed. The driver is never called: a
// stream is only a handle here.
#include "device/call_list.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "device/device_context.hpp"
#include "support/scarce_memory.hpp"

namespace call_list_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Observer : StreamObserver {
  Observer() = default;
  explicit Observer(std::function<void()> action_) : action(std::move(action_)) {}
  void stream_retiring(DeviceContext&, CUstream) noexcept override {
    ++calls;
    if (action) action();
  }

  std::function<void()> action;
  std::atomic<int> calls = 0;
};

struct ObserversFixture {
  void retire() { context.retire_stream(reinterpret_cast<CUstream>(std::uintptr_t{0x100})); }

  Driver driver{DriverSource{}, {}};
  DeviceContext context{driver, Device::cuda(0), 0};
};

template <class Action>
void on_thread(Action&& action) {
  std::thread(std::forward<Action>(action)).join();
}

}  // namespace

TEST_CASE_FIXTURE(ObserversFixture, "each observer is called once, as long as it is not removed") {
  Observer first, second;
  retire();
  context.add_observer(first);
  context.add_observer(second);
  retire();
  context.remove_observer(first);
  retire();
  context.remove_observer(first);  // who is not there is not removed
  context.remove_observer(second);
  retire();
  CHECK(first.calls == 1);
  CHECK(second.calls == 2);
}

TEST_CASE_FIXTURE(ObserversFixture, "removing an observer waits for its call on another thread") {
  std::atomic<bool> is_inside = false;
  std::atomic<bool> may_return = false;
  std::atomic<bool> has_returned = false;
  std::atomic<bool> is_removed = false;
  Observer observer([&] {
    is_inside = true;
    while (!may_return) std::this_thread::yield();
    has_returned = true;
  });
  context.add_observer(observer);
  std::thread caller([&] { retire(); });
  while (!is_inside) std::this_thread::yield();
  std::atomic<bool> is_about_to = false;
  bool was_inside = false;
  std::thread remover([&] {
    is_about_to = true;
    context.remove_observer(observer);
    was_inside = !has_returned;
    is_removed = true;
  });
  while (!is_about_to) std::this_thread::yield();
  for (int turn = 0; turn < 5000 && !is_removed; ++turn) std::this_thread::yield();
  CHECK_FALSE(is_removed.load());
  may_return = true;
  caller.join();
  remover.join();
  CHECK(is_removed);
  CHECK_FALSE(was_inside);
}

TEST_CASE_FIXTURE(ObserversFixture,
                  "an observer that is removed before its turn comes is not called") {
  auto second = std::make_unique<Observer>();
  Observer first([&] {
    on_thread([&] {  // who destroys it knows nothing of the stream that goes away
      context.remove_observer(*second);
      second->calls = -1000;
    });
  });
  context.add_observer(first);
  context.add_observer(*second);
  retire();
  CHECK(second->calls == -1000);
  context.remove_observer(first);
}

TEST_CASE_FIXTURE(ObserversFixture,
                  "an observer may remove itself, and others, when it is called") {
  Observer other, last;
  std::unique_ptr<Observer> self;
  self = std::make_unique<Observer>([&] {
    context.remove_observer(other);
    context.remove_observer(*self);
  });
  context.add_observer(*self);
  context.add_observer(other);
  context.add_observer(last);
  retire();
  self.reset();
  retire();
  CHECK(other.calls == 0);
  CHECK(last.calls == 2);
  context.remove_observer(last);
}

TEST_CASE_FIXTURE(ObserversFixture,
                  "an observer that retires another stream is called for it, too") {
  Observer observer;
  observer.action = [&] {
    if (observer.calls == 1) retire();
    if (observer.calls == 2) context.remove_observer(observer);
  };
  context.add_observer(observer);
  retire();
  CHECK(observer.calls == 2);
  retire();
  CHECK(observer.calls == 2);
}

TEST_CASE_FIXTURE(ObserversFixture, "notifying observers of a stream's end allocates no memory") {
  Observer first, second;
  context.add_observer(first);
  context.add_observer(second);
  std::size_t calls = 0;
  {
    const ScarceMemory scarce(0);
    retire();
    context.remove_observer(first);
    retire();
    calls = scarce.calls();
  }
  CHECK(calls == 0);
  CHECK(first.calls == 1);
  CHECK(second.calls == 2);
  context.remove_observer(second);
}

TEST_CASE_FIXTURE(
    ObserversFixture,
    "observers that are added and removed during stream destruction are not called later") {
  constexpr int kRounds = 2000;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> callers;
  for (int index = 0; index < 2; ++index) {
    callers.emplace_back([&] {
      while (!is_over) retire();
    });
  }
  std::vector<std::thread> owners;
  std::atomic<int> late = 0;
  for (int index = 0; index < 2; ++index) {
    owners.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        std::atomic<bool> is_there = true;
        Observer observer([&] {
          if (!is_there) ++late;
        });
        context.add_observer(observer);
        if (round % 3 == 0) std::this_thread::yield();
        context.remove_observer(observer);
        is_there = false;
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  is_over = true;
  for (std::thread& caller : callers) caller.join();
  CHECK(late == 0);
}

}  // namespace call_list_test
