// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES as the registry shows it: the table of cases, and what hidden devices look
// like.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"

#include "device/visible_case_text.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace visible_devices_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

sim::Config four_devices() {
  sim::Config config;
  config.devices = 4;
  return config;
}

MachineUuids uuids_of(const sim::Config& config) {
  const ScopedEnvironment unset(kVariable, std::nullopt);
  Simulation simulation(config);
  const DeviceRegistry& registry = simulation.runtime->devices();
  MachineUuids uuids;
  for (const DeviceInfo& info : registry.physical_devices()) uuids.devices.push_back(info.uuid);
  uuids.instances.resize(uuids.devices.size());
  for (const DeviceInfo& info : registry.mig_instances()) {
    uuids.instances.at(std::size_t(info.physical)).push_back(info.uuid);
  }
  REQUIRE(uuids.devices.size() == std::size_t(config.devices));
  return uuids;
}

/// The physical devices that are visible, in logical order.
std::vector<int> visible(const DeviceRegistry& registry) {
  std::vector<int> physical;
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal)
    physical.push_back(registry.info(Device::cuda(ordinal)).physical);
  return physical;
}

/// The same as the table of cases writes it.
std::string visible_text(const DeviceRegistry& registry) {
  std::string text;
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal) {
    const DeviceInfo& info = registry.info(Device::cuda(ordinal));
    std::optional<std::size_t> instance;
    std::size_t index = 0;
    for (const DeviceInfo& candidate : registry.mig_instances()) {
      if (&candidate == &info) instance = index;
      if (candidate.physical == info.physical) ++index;
    }
    append_place(text, place_text(std::size_t(info.physical), instance));
  }
  return text;
}

/// Where the simulated driver and the rule differ, there is a sentence that says so.
void check_that_driver_and_rule_agree(const DeviceRegistry& registry) {
  for (const DeviceExplanation& explanation : registry.explain()) {
    CAPTURE(explanation.sentence);
    CHECK_FALSE(contains(explanation.sentence, "the driver lists it"));
    CHECK_FALSE(contains(explanation.sentence, "the driver does not list it"));
    CHECK_FALSE(contains(explanation.sentence, "the CUDA driver does not work"));
  }
}

void check_cases(const VisibleDeviceCases& cases) {
  CAPTURE(cases.machine);
  std::optional<std::string> order;
  if (cases.order) order = *cases.order;
  const ScopedEnvironment order_environment("CUDA_DEVICE_ORDER", order);
  const sim::Config config = sim::Config::parse(cases.machine);
  const MachineUuids uuids = uuids_of(config);
  for (const VisibleDeviceCase& expected : cases.cases) {
    std::optional<std::string> value;
    if (expected.text) value = with_uuids(*expected.text, uuids).value();
    CAPTURE(rule_text(expected.rule));
    CAPTURE(value.value_or("(not set)"));
    const ScopedEnvironment environment(kVariable, value);
    Simulation simulation(config);
    const DeviceRegistry& registry = simulation.runtime->devices();

    CHECK(visible_text(registry) == expected.visible);
    CHECK(registry.physical_devices().size() == uuids.devices.size());
    CHECK(registry.is_available() == !expected.visible.empty());
    std::optional<std::string> wrong;
    if (expected.wrong) wrong = with_uuids(*expected.wrong, uuids).value();
    check_problem(registry.visibility_problem(), value.value_or(""), wrong);
    check_that_driver_and_rule_agree(registry);
    CHECK(simulation.simulator.live().contexts == 0);
  }
}

}  // namespace

TEST_CASE("the simulated driver matches the table of cases, with whole devices") {
  for (const VisibleDeviceCases& cases : whole_device_cases()) check_cases(cases);
}

TEST_CASE("the simulated driver matches the table of cases, with instances and orders") {
  for (const VisibleDeviceCases& cases : instance_and_order_cases()) check_cases(cases);
}

TEST_CASE("a well-formed CUDA_VISIBLE_DEVICES yields no problem and no warning") {
  for (const char* value : {"0", "3,1", "0,1,2,3"}) {
    CAPTURE(value);
    const ScopedEnvironment environment(kVariable, value);
    Simulation simulation(four_devices());
    CHECK(simulation.runtime->devices().visibility_problem().empty());
    CHECK(simulation.reports.all().empty());
  }
}

TEST_CASE("a malformed CUDA_VISIBLE_DEVICES is reported by a problem, a warning and later errors") {
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
  const std::vector<std::string> uuids = uuids_of(four_devices()).devices;
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

}  // namespace visible_devices_test
