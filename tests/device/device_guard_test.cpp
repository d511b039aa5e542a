// SPDX-License-Identifier: Apache-2.0
#include "berth/device_guard.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"

#include "device/device_context.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/second_thread.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace device_guard_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kFirst = Device::cuda(0);
const Device kSecond = Device::cuda(1);

sim::Config devices(int count) {
  sim::Config config;
  config.devices = count;
  return config;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  REQUIRE(sim::berth_sim_cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  return context;
}

/// As code does that knows nothing of berth.
void set_context(CUcontext context) {
  REQUIRE(sim::berth_sim_cuCtxSetCurrent(context) == CUDA_SUCCESS);
}
void push_context(CUcontext context) {
  REQUIRE(sim::berth_sim_cuCtxPushCurrent(context) == CUDA_SUCCESS);
}

CUcontext primary_of(const DeviceRegistry& registry, Device device) {
  return registry.context(device).primary();
}

/// How often each driver function is called by `action`.
template <class Action>
std::map<std::string, std::uint64_t> calls_of(const Runtime& runtime, Action&& action) {
  std::map<std::string, std::uint64_t> calls;
  const std::vector<DriverCallCount> before = runtime.statistics().driver_calls;
  action();
  for (const DriverCallCount& count : runtime.statistics().driver_calls)
    calls[std::string(count.function)] += count.calls;
  for (const DriverCallCount& count : before) calls[std::string(count.function)] -= count.calls;
  std::erase_if(calls, [](const auto& call) { return call.second == 0; });
  return calls;
}

using Calls = std::map<std::string, std::uint64_t>;
const Calls kNone;
const Calls kOneQuestion = {{"cuCtxGetCurrent", 1}};
const Calls kThereAndBack = {
    {"cuCtxGetCurrent", 1}, {"cuCtxPushCurrent", 1}, {"cuCtxPopCurrent", 1}};

}  // namespace

TEST_CASE("device guards nest like scopes and restore what was current before") {
  Simulation simulation(devices(3));
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(2));
  {
    const DeviceGuard outer(registry, Device::cuda(0));
    CHECK(registry.current() == Device::cuda(0));
    {
      const DeviceGuard inner(registry, Device::cuda(1));
      CHECK(registry.current() == Device::cuda(1));
      {
        const DeviceGuard same(registry, Device::cuda(1));
        CHECK(registry.current() == Device::cuda(1));
      }
      CHECK(registry.current() == Device::cuda(1));
    }
    CHECK(registry.current() == Device::cuda(0));
  }
  CHECK(registry.current() == Device::cuda(2));
}

TEST_CASE("a device guard restores that no context was current") {
  Simulation simulation(devices(2));
  REQUIRE(current_context() == nullptr);
  {
    const DeviceGuard guard(simulation.runtime->devices(), Device::cuda(1));
    CHECK(current_context() != nullptr);
  }
  CHECK(current_context() == nullptr);
}

TEST_CASE("a device guard restores on the way out of an exception") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(0));
  const auto fail_inside = [&registry] {
    const DeviceGuard guard(registry, Device::cuda(1));
    throw InvalidArgument("inside");
  };
  CHECK_THROWS_AS(fail_inside(), InvalidArgument);
  CHECK(registry.current() == Device::cuda(0));
}

TEST_CASE("a device guard that cannot be made changes nothing") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  registry.set_current(Device::cuda(1));
  message_of<InvalidArgument>([&] { const DeviceGuard guard(registry, Device::cuda(2)); });
  message_of<InvalidArgument>([&] { const DeviceGuard guard(registry, Device::cpu()); });
  CHECK(registry.current() == Device::cuda(1));
}

TEST_CASE("device guards of different threads are independent") {
  Simulation simulation(devices(4));
  const DeviceRegistry& registry = simulation.runtime->devices();
  std::array<bool, 4> kept{};
  std::vector<std::thread> threads;
  for (int ordinal = 0; ordinal < 4; ++ordinal) {
    threads.emplace_back([&registry, &kept, ordinal] {
      bool right = true;
      for (int round = 0; round < 50; ++round) {
        const DeviceGuard outer(registry, Device::cuda(ordinal));
        const DeviceGuard inner(registry, Device::cuda((ordinal + 1) % 4));
        right = right && registry.current() == Device::cuda((ordinal + 1) % 4);
      }
      kept[std::size_t(ordinal)] = right && current_context() == nullptr;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool right : kept) CHECK(right);
}

TEST_CASE("a guard for the current device of the enclosing guard makes no driver call") {
  Simulation simulation(devices(2));
  Runtime& runtime = *simulation.runtime;
  const DeviceRegistry& registry = runtime.devices();
  const DeviceGuard outer(registry, kSecond);
  CHECK(calls_of(runtime, [&] {
          const DeviceGuard inner(registry, kSecond);
          const DeviceGuard innermost(registry, kSecond);
        }) == kNone);
  {
    const DeviceGuard elsewhere(registry, kFirst);
    CHECK(calls_of(runtime, [&] { const DeviceGuard same(registry, kFirst); }) == kNone);
  }
  CHECK(calls_of(runtime, [&] { const DeviceGuard again(registry, kSecond); }) == kNone);
  CHECK(registry.current() == kSecond);
}

TEST_CASE(
    "the outermost guard queries the current context once and changes it only if it differs") {
  Simulation simulation(devices(2));
  Runtime& runtime = *simulation.runtime;
  const DeviceRegistry& registry = runtime.devices();
  registry.set_current(kFirst);
  registry.context(kSecond).primary();
  CHECK(calls_of(runtime, [&] { const DeviceGuard same(registry, kFirst); }) == kOneQuestion);
  CHECK(calls_of(runtime, [&] { const DeviceGuard other(registry, kSecond); }) == kThereAndBack);
  CHECK(registry.current() == kFirst);
}

TEST_CASE("a context made current by other code is left as it is") {
  Simulation simulation(devices(2));
  Runtime& runtime = *simulation.runtime;
  const CUcontext primary = primary_of(runtime.devices(), kSecond);
  set_context(primary);
  CHECK(calls_of(runtime, [&] {
          const DeviceGuard guard(runtime.devices(), kSecond);
          CHECK(current_context() == primary);
        }) == kOneQuestion);
  CHECK(current_context() == primary);
}

TEST_CASE("a guard creates only its own device's context, also on a thread without a context") {
  Simulation simulation(devices(3));
  const DeviceRegistry& registry = simulation.runtime->devices();
  {
    const DeviceGuard guard(registry, kSecond);
    CHECK(simulation.simulator.live().contexts == 1);
    const DeviceGuard inner(registry, kSecond);
  }
  CHECK(current_context() == nullptr);
  CHECK(simulation.simulator.live().contexts == 1);
}

TEST_CASE("set_current inside a guard holds until the guard ends") {
  Simulation simulation(devices(3));
  const DeviceRegistry& registry = simulation.runtime->devices();
  for (const Device before : {kFirst, Device::cuda(2)}) {
    registry.set_current(before);
    {
      const DeviceGuard guard(registry, kFirst);
      registry.set_current(kSecond);
      CHECK(registry.current() == kSecond);
      {
        const DeviceGuard inner(registry, kFirst);
        CHECK(registry.current() == kFirst);
      }
      CHECK(registry.current() == kSecond);
    }
    CHECK(registry.current() == before);
  }
  const DeviceGuard outer(registry, kFirst);
  {
    const DeviceGuard same(registry, kFirst);
    registry.set_current(kSecond);
  }
  CHECK(registry.current() == kFirst);
}

TEST_CASE("a guard that changed the context restores it, whatever context the code inside sets") {
  Simulation simulation(devices(3));
  const DeviceRegistry& registry = simulation.runtime->devices();
  const CUcontext first = primary_of(registry, kFirst);
  const CUcontext third = primary_of(registry, Device::cuda(2));
  const std::function<void()> leave_behind[] = {
      [&] { set_context(third); },
      [&] { set_context(first); },
      [&] { push_context(third); },
      [&] { push_context(first); },
      [&] {
        push_context(third);
        push_context(first);
        set_context(third);
      },
      [&] {
        set_context(third);
        push_context(third);
      },
  };
  for (const CUcontext before : {CUcontext(nullptr), first}) {
    for (std::size_t code = 0; code < std::size(leave_behind); ++code) {
      CAPTURE(before);
      CAPTURE(code);
      set_context(before);
      {
        const DeviceGuard guard(registry, kSecond);
        leave_behind[code]();
      }
      CHECK(current_context() == before);
      set_context(nullptr);
    }
  }
}

TEST_CASE("a guard restores the previous context if the code inside leaves none current") {
  Simulation simulation(devices(2));
  simulation.errors_expected = true;  // where nothing was left to pop
  const DeviceRegistry& registry = simulation.runtime->devices();
  for (const CUcontext before : {CUcontext(nullptr), primary_of(registry, kFirst)}) {
    for (const bool pops_all : {false, true}) {
      CAPTURE(before);
      CAPTURE(pops_all);
      set_context(before);
      {
        const DeviceGuard guard(registry, kSecond);
        set_context(nullptr);
        if (pops_all) set_context(nullptr);
      }
      CHECK(current_context() == before);
    }
  }
  set_context(nullptr);
}

TEST_CASE("an outer guard restores the context although code inside inner guards changed it") {
  Simulation simulation(devices(3));
  const DeviceRegistry& registry = simulation.runtime->devices();
  const CUcontext other = primary_of(registry, Device::cuda(2));
  {
    const DeviceGuard outer(registry, kFirst);
    {
      const DeviceGuard inner(registry, kSecond);
      const DeviceGuard same(registry, kSecond);
      set_context(other);
    }
    CHECK(registry.current() == kFirst);
  }
  CHECK(current_context() == nullptr);
}

TEST_CASE("a guard that changed nothing does not undo a context change that it has not observed") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  const CUcontext first = primary_of(registry, kFirst);
  const CUcontext second = primary_of(registry, kSecond);
  set_context(first);
  {
    const DeviceGuard guard(registry, kFirst);
    set_context(second);
  }
  CHECK(current_context() == second);

  set_context(first);
  {
    const DeviceGuard guard(registry, kFirst);
    set_context(second);
    CHECK(registry.current() == kSecond);
    {
      const DeviceGuard inner(registry, kFirst);
      CHECK(current_context() == first);
    }
    CHECK(current_context() == second);
  }
  CHECK(current_context() == first);
}

TEST_CASE("a guard created while berth works on another device makes its own device current") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  const DeviceGuard outer(registry, kFirst);
  {
    const ContextScope working(registry.context(kSecond));
    CHECK(current_context() == primary_of(registry, kSecond));
    {
      const DeviceGuard guard(registry, kFirst);
      CHECK(current_context() == primary_of(registry, kFirst));
    }
    CHECK(registry.current() == kSecond);
  }
  CHECK(registry.current() == kFirst);
  CHECK(calls_of(*simulation.runtime, [&] { const DeviceGuard same(registry, kFirst); }) == kNone);
}

TEST_CASE("guards of two Runtimes nest and agree on the current context") {
  Simulation simulation(devices(2));
  RuntimeOptions options;
  options.driver = "sim";
  Runtime other(options);
  const DeviceGuard outer(simulation.runtime->devices(), kSecond);
  other.devices().context(kSecond).primary();
  CHECK(calls_of(other, [&] { const DeviceGuard inner(other.devices(), kSecond); }) ==
        kOneQuestion);
  {
    const DeviceGuard inner(other.devices(), kFirst);
    const DeviceGuard innermost(simulation.runtime->devices(), kSecond);
    CHECK(other.devices().current() == kSecond);
  }
  CHECK(other.devices().current() == kSecond);
}

TEST_CASE("a guard that the driver refuses changes nothing, and the next one is made") {
  TappedDevice device(devices(2));
  device.registry.set_current(kFirst);
  const CUcontext first = current_context();
  for (const DriverCall call : {DriverCall::primary_ctx_retain, DriverCall::ctx_get_current,
                                DriverCall::ctx_push_current}) {
    device.tap.refuse(call, CUDA_ERROR_UNKNOWN);
    const std::string message =
        message_of<DriverError>([&] { const DeviceGuard guard(device.registry, kSecond); });
    CHECK(contains(message, kDriverCallNames[std::size_t(call)]));
    CHECK(current_context() == first);
  }
  {
    const DeviceGuard guard(device.registry, kSecond);
    CHECK(device.registry.current() == kSecond);
    device.tap.refuse(DriverCall::ctx_get_current, CUDA_ERROR_UNKNOWN);
    message_of<DriverError>([&] { const DeviceGuard inner(device.registry, kFirst); });
    CHECK(current_context() == primary_of(device.registry, kSecond));
  }
  CHECK(current_context() == first);
  CHECK(device.reports.all().empty());
}

TEST_CASE("a guard that cannot restore reports it, and those around it still do") {
  TappedDevice device(devices(3));
  {
    const DeviceGuard outer(device.registry, kFirst);
    const DeviceGuard same(device.registry, kFirst);
    {
      const DeviceGuard guard(device.registry, kSecond);
      device.tap.refuse(DriverCall::ctx_pop_current, CUDA_ERROR_UNKNOWN);
    }
    REQUIRE(device.reports.all().size() == 1);
    CHECK(device.reports.mention("cuCtxPopCurrent"));
    const DeviceGuard next(device.registry, kFirst);
    CHECK(current_context() == primary_of(device.registry, kFirst));
  }
  CHECK(current_context() == nullptr);
  CHECK(device.reports.all().size() == 1);
}

TEST_CASE("a driver that refuses everything, or has shut down, makes no destructor throw or hang") {
  for (const CUresult result : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_DEINITIALIZED}) {
    for (const bool only_pop : {false, true}) {
      TappedDevice device(devices(3));
      const CUcontext other = primary_of(device.registry, Device::cuda(2));
      {
        const DeviceGuard outer(device.registry, kFirst);
        device.registry.set_current(kSecond);
        const DeviceGuard inner(device.registry, Device::cuda(2));
        const DeviceGuard innermost(device.registry, kFirst);
        push_context(other);
        for (const DriverCall call : {DriverCall::ctx_pop_current, DriverCall::ctx_get_current,
                                      DriverCall::ctx_push_current, DriverCall::ctx_set_current}) {
          if (!only_pop || call == DriverCall::ctx_pop_current) device.tap.refuse_all(call, result);
        }
      }
      // A driver that has shut down took all with it: that is no failure.
      CHECK(device.reports.all().empty() == (result == CUDA_ERROR_DEINITIALIZED));
      for (const DriverCall call : {DriverCall::ctx_pop_current, DriverCall::ctx_get_current,
                                    DriverCall::ctx_push_current, DriverCall::ctx_set_current})
        device.tap.allow(call);
      const DeviceGuard guard(device.registry, kSecond);
      CHECK(device.registry.current() == kSecond);
    }
  }
}

TEST_CASE("a guard that ends before one made after it, or on another thread, stops the process") {
  Simulation simulation(devices(2));
  const DeviceRegistry& registry = simulation.runtime->devices();
  // Made here: the child in which it stops can reach no driver.
  auto outer = std::make_unique<DeviceGuard>(registry, kFirst);
  {
    auto inner = std::make_unique<DeviceGuard>(registry, kFirst);
    CHECK(
        contains(last_words([&] { outer.reset(); }).value(), "before a guard that was made later"));
    CHECK_FALSE(stops_the_process([&] {
      inner.reset();
      outer.reset();
    }));
  }
  CHECK(contains(last_words([&] { std::thread([&] { outer.reset(); }).join(); }).value(),
                 "a DeviceGuard or StreamGuard ends on another thread"));
}

TEST_CASE("the state of guards is per thread") {
  Simulation simulation(devices(2));
  Runtime& runtime = *simulation.runtime;
  const DeviceRegistry& registry = runtime.devices();
  const DeviceGuard mine(registry, kFirst);
  SecondThread second;
  second.run([&] {
    CHECK(calls_of(runtime, [&] {
            const DeviceGuard theirs(registry, kFirst);
            CHECK(current_context() != nullptr);
          }) == kThereAndBack);
    CHECK(current_context() == nullptr);
    registry.set_current(kSecond);
  });
  CHECK(calls_of(runtime, [&] { const DeviceGuard same(registry, kFirst); }) == kNone);
  CHECK(registry.current() == kFirst);
}

}  // namespace device_guard_test
