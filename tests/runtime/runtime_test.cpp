// SPDX-License-Identifier: Apache-2.0
// The object that owns everything: when its parts are created, its statistics, and its destruction.
#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "driver/driver_table.hpp"
#include "support/allocator_checks.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace runtime_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config two_devices(sim::Progress progress = sim::Progress::eager) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

}  // namespace

TEST_CASE("a new Runtime creates no objects in the driver") {
  Simulation simulation(two_devices());
  CHECK(simulation.simulator.live() == sim::Live{});
  CHECK(simulation.runtime->statistics().allocators.size() <= 2);
  CHECK(simulation.simulator.live() == sim::Live{});
}

TEST_CASE("parts of a device are created by their first use and stay the same") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  StreamPool& streams = runtime.streams(Device::cuda(1));
  EventPool& events = runtime.events(Device::cuda(1));
  DeviceAllocator& memory = runtime.memory(Device::cuda(1));
  CHECK(simulation.simulator.live().contexts <= 1);
  CHECK(simulation.simulator.device_bytes_used(0) == 0);
  CHECK(&runtime.streams(Device::cuda(1)) == &streams);
  CHECK(&runtime.events(Device::cuda(1)) == &events);
  CHECK(&runtime.memory(Device::cuda(1)) == &memory);
  CHECK(&runtime.streams(Device::cuda(0)) != &streams);
  CHECK(&runtime.pinned_memory() == &runtime.pinned_memory());
  CHECK(&runtime.copier() == &runtime.copier());
}

TEST_CASE("cuda without an ordinal means the thread's current device, for every part") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  runtime.devices().set_current(Device::cuda(1));
  CHECK(&runtime.memory(Device::cuda()) == &runtime.memory(Device::cuda(1)));
  CHECK(&runtime.streams(Device::cuda()) == &runtime.streams(Device::cuda(1)));
  CHECK(runtime.create_stream(Device::cuda()).ref().device() == Device::cuda(1));
  CHECK(runtime.default_stream(Device::cuda()).device() == Device::cuda(1));
}

TEST_CASE("driver functions are found by name in the driver that berth calls") {
  Simulation simulation(two_devices());
  const Runtime& runtime = *simulation.runtime;
  auto* const count =
      reinterpret_cast<int (*)(int*)>(runtime.driver_function("cuDeviceGetCount", 2000));
  REQUIRE((count != nullptr));
  const std::uint64_t calls = simulation.simulator.calls("cuDeviceGetCount");
  int devices = 0;
  CHECK(count(&devices) == 0);
  CHECK(devices == 2);
  CHECK(simulation.simulator.calls("cuDeviceGetCount") == calls + 1);
  CHECK(runtime.driver_function("cuTexObjectCreate", 5000) == nullptr);  // not simulated
  CHECK_THROWS_AS(static_cast<void>(runtime.driver_function(nullptr, 2000)), InvalidArgument);
}

TEST_CASE("threads that use a device first together get the same parts") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  std::vector<DeviceAllocator*> allocators(4);
  std::vector<PinnedAllocator*> pinned(4);
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < 4; ++index) {
    threads.emplace_back([&, index] {
      allocators[index] = &runtime.memory(Device::cuda(0));
      pinned[index] = &runtime.pinned_memory();
      const StreamLease stream = runtime.streams(Device::cuda(0)).acquire();
      const Allocation block = allocators[index]->allocate(1000, stream);
      runtime.copier().fill_async(block.data(), 1, 1000, stream);
      stream->sync();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::count(allocators, allocators[0]) == 4);
  CHECK(std::ranges::count(pinned, pinned[0]) == 4);
  check_whole(runtime.memory(Device::cuda(0)));
}

TEST_CASE("statistics cover the driver, devices, allocators in use, calls and copies") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(Device::cuda(1));
  const Allocation block = runtime.memory(Device::cuda(1)).allocate(5000, stream);
  const Allocation pinned = runtime.pinned_memory().allocate(3000);
  const Allocation host = runtime.host_memory().allocate(2000);
  runtime.copier().copy(block.data(), pinned.data(), 3000, stream);

  const Statistics statistics = runtime.statistics();
  CHECK(statistics.driver.name == "sim");
  CHECK(statistics.driver.usable);
  REQUIRE(statistics.devices.size() == 2);
  CHECK(statistics.devices[1].logical == 1);
  REQUIRE(statistics.allocators.size() == 3);
  CHECK(statistics.allocators[0].allocator == "cuda:1");
  CHECK(statistics.allocators[0].counters.bytes_requested.current == 5000);
  CHECK(statistics.allocators[1].allocator == "pinned");
  CHECK(statistics.allocators[1].counters.bytes_requested.current >= 3000);
  CHECK(statistics.allocators[2].allocator == "cpu");
  CHECK(statistics.allocators[2].counters.bytes_requested.current == 2000);
  CHECK(statistics.copies.copies_direct == 1);
  CHECK(statistics.copies.bytes_copied == 3000);

  std::size_t previous = 0;
  for (const DriverCallCount& count : statistics.driver_calls) {
    CAPTURE(count.function);
    CHECK(count.calls > 0);
    const auto* const at = std::ranges::find(kDriverCallNames, count.function,
                                             [](const char* name) { return std::string(name); });
    REQUIRE(at != kDriverCallNames.end());
    const auto position = std::size_t(at - kDriverCallNames.begin()) + 1;
    CHECK(position > previous);
    previous = position;
  }
  CHECK(driver_calls(runtime, "cuInit") == 1);
  CHECK(driver_calls(runtime, "cuMemcpyAsync") == 1);
}

TEST_CASE("statistics make no driver call") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(Device::cuda(0));
  const Allocation block = runtime.memory(Device::cuda(0)).allocate(5000, stream);
  const std::uint64_t calls = driver_calls(runtime);
  CHECK(driver_calls(runtime) == calls);
}

TEST_CASE("the text and the JSON of a Runtime's statistics name its driver and its devices") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const Stream stream = runtime.create_stream(Device::cuda(0));
  const Allocation block = runtime.memory(Device::cuda(0)).allocate(5000, stream);
  const Statistics statistics = runtime.statistics();

  const std::string text = to_text(statistics);
  CHECK(contains(text, "sim"));
  CHECK(contains(text, "cuda:0"));
  CHECK(contains(text, "Simulated GPU"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }

  const nlohmann::json json = nlohmann::json::parse(to_json(statistics));
  CHECK(json.at("driver").at("name") == "sim");
  CHECK(json.at("driver").at("usable") == true);
  CHECK(json.at("devices").size() == 2);
  CHECK(json.at("devices")[0].at("uuid") == statistics.devices[0].uuid);
  CHECK(json.at("allocators")[0].at("allocator") == "cuda:0");
  CHECK(json.at("copies").at("bytes_copied") == 0);
  CHECK(json.at("driver_calls").size() == statistics.driver_calls.size());
}

TEST_CASE("a Runtime destroyed with pending work completes it and leaves nothing in the driver") {
  Simulation simulation(two_devices(sim::Progress::manual));
  {
    Runtime& runtime = *simulation.runtime;
    for (const int ordinal : {0, 1}) {
      const Stream own = runtime.create_stream(Device::cuda(ordinal));
      const StreamLease leased = runtime.streams(Device::cuda(ordinal)).acquire();
      const Allocation block = runtime.memory(Device::cuda(ordinal)).allocate(2_MiB, own);
      const Allocation pinned = runtime.pinned_memory().allocate(1_MiB);
      const std::vector<char> pageable(1_MiB);
      block.record_stream(leased);
      runtime.copier().copy_async(block.data(), pinned.data(), 1_MiB, leased);
      std::byte* const upper = static_cast<std::byte*>(block.data()) + 1_MiB;
      runtime.copier().copy_async(upper, pageable.data(), 1_MiB, own);
      const EventLease mark = runtime.record(own);
      simulation.log.submit(own, "own");
      simulation.log.submit(leased, "leased");
    }
  }
  simulation.runtime.reset();
  simulation.simulator.run_all();
  CHECK(simulation.log.done().size() == 4);
  CHECK(simulation.simulator.live() == sim::Live{});
  CHECK(simulation.simulator.device_bytes_used(0) == 0);
  CHECK(simulation.reports.all().empty());
}

TEST_CASE("Runtimes work one after the other and side by side") {
  const sim::Simulator simulator{two_devices()};
  RuntimeOptions options;
  options.driver = "sim";
  for (int generation = 0; generation < 3; ++generation) {
    Runtime first(options);
    Runtime second(options);
    const Stream a = first.create_stream(Device::cuda(0));
    const Stream b = second.create_stream(Device::cuda(0));
    const Allocation of_first = first.memory(Device::cuda(0)).allocate(1_MiB, a);
    const Allocation of_second = second.memory(Device::cuda(0)).allocate(1_MiB, b);
    CHECK(of_first.data() != of_second.data());
    CHECK_FALSE(first.memory(Device::cuda(0)).owns(of_second.data()));
    CHECK(second.memory(Device::cuda(0)).counters().allocations == 1);
    CHECK(simulator.live().contexts == 1);
  }
  CHECK(simulator.live() == sim::Live{});
}

TEST_CASE("a Runtime may be destroyed during process exit, before or after its driver") {
  for (const bool driver_first : {true, false}) {
    CAPTURE(driver_first);
    const auto use = [driver_first] {
      // Destroyed in the opposite order, as the process exits.
      static std::optional<sim::Simulator> outlives;
      static std::optional<Runtime> runtime;
      static std::optional<sim::Simulator> goes_first;
      (driver_first ? goes_first : outlives).emplace(sim::Config{});
      RuntimeOptions options;
      options.driver = "sim";
      runtime.emplace(options);
      const Stream stream = runtime->create_stream(Device::cuda(0));
      const Allocation block = runtime->memory(Device::cuda(0)).allocate(1_MiB, stream);
      const Allocation pinned = runtime->pinned_memory().allocate(1_MiB);
      const EventLease mark = runtime->record(stream);
      runtime->copier().copy(block.data(), std::vector<char>(1000).data(), 1000, stream);
      return 0;
    };
    CHECK(exit_code_of(use) == 0);
  }
}

TEST_CASE("the constructor refuses invalid options of parts that are created later") {
  const auto refusal = [](const auto& change) {
    RuntimeOptions options;
    options.driver = "sim";
    change(options);
    return message_of<InvalidArgument>([&] { const Runtime runtime(options); });
  };
  CHECK(contains(refusal([](RuntimeOptions& o) { o.stream_pool.streams_max = 0; }), "streams_max"));
  CHECK(contains(refusal([](RuntimeOptions& o) { o.event_pool.events_max = 0; }), "events_max"));
  CHECK(contains(refusal([](RuntimeOptions& o) { o.stream_pool.on_shortage = StreamShortage(3); }),
                 "StreamPoolOptions::on_shortage is 3; accepted: share, wait, fail"));
  CHECK(contains(refusal([](RuntimeOptions& o) { o.device_allocator.granule_bytes = 3; }),
                 "granule_bytes is 3; accepted: 0 or a power of two"));
  CHECK(contains(refusal([](RuntimeOptions& o) { o.device_allocator.segment_bytes = 1; }),
                 "segment_bytes"));
  CHECK(contains(refusal([](RuntimeOptions& o) {
                   o.device_allocator.release_unused_after = std::chrono::milliseconds(0);
                 }),
                 "release_unused_after"));
}

}  // namespace runtime_test
