// SPDX-License-Identifier: Apache-2.0
#include "berth/current_stream.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace current_stream_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  return config;
}

const Device kFirst = Device::cuda(0);
const Device kSecond = Device::cuda(1);

}  // namespace

TEST_CASE("a thread's current stream is the legacy default stream unless a guard changes it") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  CHECK(runtime.current_stream(kFirst) == runtime.default_stream(kFirst));
  CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
  const Stream stream = runtime.create_stream(kFirst);
  {
    const StreamGuard guard(stream);
    CHECK(runtime.current_stream(kFirst) == stream.ref());
    CHECK(runtime.current_stream(Device::cuda()) == stream.ref());
    CHECK(current_stream(stream.ref().context()) == stream.ref());
    CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
  }
  CHECK(runtime.current_stream(kFirst) == runtime.default_stream(kFirst));
}

TEST_CASE("stream guards nest like scopes, on each device by itself") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream a = runtime.create_stream(kFirst);
  const Stream b = runtime.create_stream(kFirst);
  const Stream other = runtime.create_stream(kSecond);
  const StreamGuard outer(a);
  {
    const StreamGuard inner(b);
    CHECK(runtime.current_stream(kFirst) == b.ref());
    {
      const StreamGuard elsewhere(other);
      CHECK(runtime.current_stream(kFirst) == b.ref());
      CHECK(runtime.current_stream(kSecond) == other.ref());
      const StreamGuard back(runtime.default_stream(kFirst));
      CHECK(runtime.current_stream(kFirst) == runtime.default_stream(kFirst));
      CHECK(runtime.current_stream(kSecond) == other.ref());
    }
    CHECK(runtime.current_stream(kFirst) == b.ref());
    CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
  }
  CHECK(runtime.current_stream(kFirst) == a.ref());
}

TEST_CASE("a stream guard makes the stream's device current and restores what was") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  runtime.devices().set_current(kFirst);
  const Stream there = runtime.create_stream(kSecond);
  const Stream here = runtime.create_stream(kFirst);
  {
    const StreamGuard guard(there);
    CHECK(runtime.devices().current() == kSecond);
    {
      const StreamGuard inner(here);
      CHECK(runtime.devices().current() == kFirst);
    }
    CHECK(runtime.devices().current() == kSecond);
  }
  CHECK(runtime.devices().current() == kFirst);
}

TEST_CASE(
    "a stream guard restores that no context was current, and on the way out of an exception") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kSecond);
  const auto fail_inside = [&] {
    const StreamGuard guard(stream);
    throw std::runtime_error("inside");
  };
  CHECK_THROWS_AS(fail_inside(), std::runtime_error);
  CUcontext context = nullptr;
  REQUIRE(sim::berth_sim_cuCtxGetCurrent(&context) == CUDA_SUCCESS);
  CHECK(context == nullptr);
  CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
}

TEST_CASE("each thread has its own current stream") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream mine = runtime.create_stream(kFirst);
  const Stream theirs = runtime.create_stream(kFirst);
  const StreamGuard guard(mine);
  std::thread([&] {
    CHECK(runtime.current_stream(kFirst) == runtime.default_stream(kFirst));
    const StreamGuard inner(theirs);
    CHECK(runtime.current_stream(kFirst) == theirs.ref());
  }).join();
  CHECK(runtime.current_stream(kFirst) == mine.ref());
}

TEST_CASE("current_stream() makes no driver call") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kFirst);
  const StreamGuard guard(stream);
  CHECK(runtime.current_stream(kSecond).native() == nullptr);  // the device's first use
  const std::uint64_t before = driver_calls(runtime);
  for (int round = 0; round < 10; ++round) {
    CHECK(current_stream(stream.ref().context()) == stream.ref());
    CHECK(runtime.current_stream(kSecond).native() == nullptr);
  }
  CHECK(driver_calls(runtime) == before);
}

TEST_CASE("a guard of either kind inside one for the same device makes no driver call") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream a = runtime.create_stream(kSecond);
  const Stream b = runtime.create_stream(kSecond);
  const auto nest = [&] {
    const std::uint64_t before = driver_calls(runtime);
    {
      const StreamGuard same(a);
      const StreamGuard other(b);
      const DeviceGuard device(runtime.devices(), kSecond);
      const StreamGuard inside(a);
      CHECK(runtime.current_stream(kSecond) == a.ref());
    }
    CHECK(driver_calls(runtime) == before);
  };
  {
    const StreamGuard outer(a);
    nest();
    CHECK(runtime.current_stream(kSecond) == a.ref());
  }
  const DeviceGuard outer(runtime.devices(), kSecond);
  nest();
  CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
}

TEST_CASE("the outermost stream guard queries the context once and changes it only if it differs") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream here = runtime.create_stream(kFirst);
  const Stream there = runtime.create_stream(kSecond);
  runtime.devices().set_current(kFirst);
  const auto calls_of_guard = [&](StreamRef stream) {
    const std::uint64_t asked = driver_calls(runtime, "cuCtxGetCurrent");
    const std::uint64_t all = driver_calls(runtime);
    { const StreamGuard guard(stream); }
    CHECK(driver_calls(runtime, "cuCtxGetCurrent") == asked + 1);
    return driver_calls(runtime) - all;
  };
  CHECK(calls_of_guard(here) == 1);
  CHECK(calls_of_guard(there) == 3);
  CHECK(runtime.devices().current() == kFirst);
}

TEST_CASE("guards of both kinds nest in any order, and each restores its device and its stream") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const DeviceRegistry& registry = runtime.devices();
  const Stream a = runtime.create_stream(kFirst);
  const Stream b = runtime.create_stream(kSecond);
  const auto holds = [&](Device current, StreamRef first, StreamRef second) {
    CHECK(registry.current() == current);
    CHECK(runtime.current_stream(kFirst) == first);
    CHECK(runtime.current_stream(kSecond) == second);
  };
  const StreamRef default_first = runtime.default_stream(kFirst);
  const StreamRef default_second = runtime.default_stream(kSecond);
  {
    const DeviceGuard device(registry, kSecond);
    holds(kSecond, default_first, default_second);
    {
      const StreamGuard stream(a);
      holds(kFirst, a, default_second);
      {
        const DeviceGuard back(registry, kSecond);
        holds(kSecond, a, default_second);
        const StreamGuard inside(b);
        holds(kSecond, a, b);
        registry.set_current(kFirst);
        const StreamGuard again(b);
        holds(kSecond, a, b);
      }
      holds(kFirst, a, default_second);
    }
    holds(kSecond, default_first, default_second);
  }
  holds(kFirst, default_first, default_second);
}

TEST_CASE("a stream guard that the driver refuses changes neither device nor stream") {
  sim::Config config = two_devices();
  config.faults = sim::FaultPlan::parse("cuCtxPushCurrent@3=unknown");
  Simulation simulation(config);
  Runtime& runtime = *simulation.runtime;
  const Stream a = runtime.create_stream(kFirst);
  const Stream b = runtime.create_stream(kSecond);
  runtime.devices().set_current(kFirst);
  REQUIRE(driver_calls(runtime, "cuCtxPushCurrent") == 2);
  message_of<DriverError>([&] { const StreamGuard guard(b); });
  CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
  CHECK(runtime.devices().current() == kFirst);
  const StreamGuard guard(b);
  CHECK(runtime.current_stream(kSecond) == b.ref());
  CHECK(runtime.devices().current() == kSecond);
}

TEST_CASE("a stream guard that cannot restore the device reports it, and restores the stream") {
  sim::Config config = two_devices();
  config.faults = sim::FaultPlan::parse("cuCtxPopCurrent@3=unknown");
  Simulation simulation(config);
  simulation.errors_expected = true;
  Runtime& runtime = *simulation.runtime;
  const Stream a = runtime.create_stream(kFirst);
  const Stream b = runtime.create_stream(kSecond);
  REQUIRE(driver_calls(runtime, "cuCtxPopCurrent") == 2);
  {
    const StreamGuard outer(a);
    { const StreamGuard inner(b); }
    CHECK(simulation.reports.count(Severity::error) == 1);
    CHECK(simulation.reports.mention("cuCtxPopCurrent"));
    CHECK(runtime.current_stream(kSecond) == runtime.default_stream(kSecond));
    const StreamGuard next(a);
    CHECK(runtime.devices().current() == kFirst);
  }
  CHECK(runtime.current_stream(kFirst) == runtime.default_stream(kFirst));
  CHECK(simulation.reports.count(Severity::error) == 1);
}

TEST_CASE("a stream guard that ends before a guard made after it stops the process") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(kFirst);
  // Made here: the child in which it stops can reach no driver.
  auto outer = std::make_unique<StreamGuard>(stream);
  {
    const StreamGuard inner(stream);
    CHECK(stops_the_process([&] { outer.reset(); }));
  }
  {
    const DeviceGuard inner(runtime.devices(), kFirst);
    CHECK(stops_the_process([&] { outer.reset(); }));
  }
}

TEST_CASE("the current streams of one Runtime do not apply to the next") {
  const sim::Simulator simulator{sim::Config{}};
  RuntimeOptions options;
  options.driver = "sim";
  CUstream_st* native = nullptr;
  {
    Runtime runtime(options);
    const Stream stream = runtime.create_stream(kFirst);
    native = stream.ref().native();
    const StreamGuard guard(stream);
    CHECK(runtime.current_stream(kFirst).native() == native);
  }
  Runtime next(options);
  CHECK(next.current_stream(kFirst) == next.default_stream(kFirst));
  CHECK(native != nullptr);
}

}  // namespace current_stream_test
