// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES as the registry shows it: the table of cases, and what hidden devices look
// like.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"
#include "support/visible_device_cases.hpp"

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

sim::Config four_devices() {
  sim::Config config;
  config.devices = kVisibleDeviceCaseDevices;
  return config;
}

std::vector<std::string> uuids_of_four_devices() {
  const ScopedEnvironment unset(kVariable, std::nullopt);
  Simulation simulation(four_devices());
  std::vector<std::string> uuids;
  for (const DeviceInfo& info : simulation.runtime->devices().physical_devices())
    uuids.push_back(info.uuid);
  REQUIRE(uuids.size() == std::size_t(kVisibleDeviceCaseDevices));
  return uuids;
}

/// The physical devices that are visible, in logical order.
std::vector<int> visible(const DeviceRegistry& registry) {
  std::vector<int> physical(std::size_t(registry.count()), -1);
  for (const DeviceInfo& info : registry.physical_devices()) {
    if (info.visible()) physical.at(std::size_t(*info.logical)) = info.physical;
  }
  return physical;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES means what the table of cases says") {
  const std::vector<std::string> uuids = uuids_of_four_devices();
  for (const VisibleDeviceCase& expected : visible_device_cases()) {
    std::optional<std::string> value;
    if (expected.value) value = with_uuids(*expected.value, uuids);
    CAPTURE(value.value_or("(not set)"));
    const ScopedEnvironment environment(kVariable, value);
    Simulation simulation(four_devices());
    const DeviceRegistry& registry = simulation.runtime->devices();

    CHECK(registry.count() == int(expected.visible.size()));
    CHECK(registry.is_available() == !expected.visible.empty());
    CHECK(visible(registry) == expected.visible);
    CHECK(registry.physical_devices().size() == std::size_t(kVisibleDeviceCaseDevices));
    CHECK(simulation.simulator.live().contexts == 0);
    if (expected.malformed) {
      CHECK_FALSE(registry.visibility_problem().empty());
      CHECK_FALSE(contains(registry.visibility_problem(), "\n"));
      CHECK(contains(registry.visibility_problem(), kVariable));
    }
    if (value == std::nullopt || expected.visible.size() == 4)
      CHECK(registry.visibility_problem().empty());
  }
}

TEST_CASE("a well-formed CUDA_VISIBLE_DEVICES is no problem and gives no warning") {
  for (const char* value : {"0", "3,1", "0,1,2,3"}) {
    CAPTURE(value);
    const ScopedEnvironment environment(kVariable, value);
    Simulation simulation(four_devices());
    CHECK(simulation.runtime->devices().visibility_problem().empty());
    CHECK(simulation.reports.all().empty());
  }
}

TEST_CASE("a malformed CUDA_VISIBLE_DEVICES is told by the problem, a warning, and later errors") {
  const ScopedEnvironment environment(kVariable, "2,seven,1");
  Simulation simulation(four_devices());
  const DeviceRegistry& registry = simulation.runtime->devices();
  const std::string& problem = registry.visibility_problem();
  CHECK(contains(problem, "seven"));
  CHECK(simulation.reports.count(Severity::warning) == 1);
  CHECK(simulation.reports.mention(problem));
  const std::string message =
      message_of<InvalidArgument>([&] { return registry.resolve(Device::cuda(1)); });
  CHECK(contains(message, "cuda:1"));
  CHECK(contains(message, problem));
  message_of<InvalidArgument>([&] { registry.set_current(Device::cuda(1)); });
  CHECK(registry.resolve(Device::cuda(0)) == Device::cuda(0));
}

TEST_CASE("hidden devices are listed, with their facts and without a logical ordinal") {
  const ScopedEnvironment environment(kVariable, "2,0");
  sim::Config config = four_devices();
  config.memory = {8_GiB, 16_GiB, 24_GiB, 32_GiB};
  Simulation simulation(config);
  const DeviceRegistry& registry = simulation.runtime->devices();
  REQUIRE(registry.physical_devices().size() == 4);
  const std::vector<std::optional<int>> logical = {1, std::nullopt, 0, std::nullopt};
  for (const DeviceInfo& info : registry.physical_devices()) {
    CAPTURE(info.physical);
    CHECK(info.logical == logical[std::size_t(info.physical)]);
    CHECK(info.memory_bytes == config.memory_of(info.physical));
    CHECK(info.name == config.name);
  }
  CHECK(registry.memory_info(Device::cuda(0)).bytes_total == 24_GiB);
  CHECK(registry.memory_info(Device::cuda(1)).bytes_total == 8_GiB);
  message_of<InvalidArgument>([&] { return registry.resolve(Device::cuda(2)); });
}

TEST_CASE("ordinals in CUDA_VISIBLE_DEVICES count in the driver's order, UUIDs in none") {
  const std::vector<std::string> uuids = uuids_of_four_devices();
  sim::Config config = four_devices();
  config.order = sim::DeviceOrder::reverse;
  {
    const ScopedEnvironment environment(kVariable, "0,1");
    Simulation simulation(config);
    CHECK(visible(simulation.runtime->devices()) == std::vector{3, 2});
  }
  {
    const ScopedEnvironment environment(kVariable, uuids[0] + "," + uuids[3]);
    Simulation simulation(config);
    CHECK(visible(simulation.runtime->devices()) == std::vector{0, 3});
  }
}

TEST_CASE("all devices hidden: none is available, all are listed, and the CPU works") {
  const ScopedEnvironment environment(kVariable, "");
  Simulation simulation(four_devices());
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK_FALSE(registry.is_available());
  REQUIRE(registry.physical_devices().size() == 4);
  for (const DeviceInfo& info : registry.physical_devices()) CHECK_FALSE(info.visible());
  CHECK(registry.resolve(Device::cpu()) == Device::cpu());
  message_of<InvalidArgument>([&] { return registry.resolve(Device::cuda(0)); });
  message_of<InvalidArgument>([&] { return registry.current(); });
}

TEST_CASE("CUDA_VISIBLE_DEVICES is read once: a change after the first look changes nothing") {
  const ScopedEnvironment environment(kVariable, "1");
  Simulation simulation(four_devices());
  const DeviceRegistry& registry = simulation.runtime->devices();
  CHECK(visible(registry) == std::vector{1});
  const ScopedEnvironment later(kVariable, "0,2,3");
  CHECK(registry.count() == 1);
  CHECK(visible(registry) == std::vector{1});
  CHECK(registry.resolve(Device::cuda(0)) == Device::cuda(0));
}
