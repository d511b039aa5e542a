// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES as a pure function. What the registry shows for the same variable is
// visible_devices_test.cpp's.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "device/visible_case_text.hpp"
#include "device/visible_devices.hpp"
#include "sim/config.hpp"
#include "support/errors.hpp"

namespace visible_device_rule_test {

using namespace berth;
using namespace berth::test;

namespace {

/// UUIDs of which some begin alike: the first two devices share eight characters.
MachineUuids uuids_of(const sim::Config& config) {
  MachineUuids uuids;
  for (int device = 0; device < config.devices; ++device) {
    const std::string beginning = device < 2 ? "aaaa" : "b" + std::to_string(100 + device);
    uuids.devices.push_back("GPU-" + beginning + std::to_string(1000 + device) +
                            "-0000-0000-0000-000000000000");
    std::vector<std::string>& instances = uuids.instances.emplace_back();
    const auto split = config.mig.find(device);
    if (split == config.mig.end()) continue;
    for (int instance = 0; instance < split->second; ++instance) {
      instances.push_back("MIG-cccc" + std::to_string(100 * device + instance) +
                          "-0000-0000-0000-000000000000");
    }
  }
  return uuids;
}

/// What a simulated machine is, to the rule; `physical` gets the device in each place.
Machine machine_of(const sim::Config& config, bool pci_order, const MachineUuids& uuids,
                   std::vector<std::size_t>& physical) {
  Machine machine;
  machine.mig_enumeration = mig_enumeration_of(config.driver_version);
  for (std::size_t device = 0; device < uuids.devices.size(); ++device) physical.push_back(device);
  if (!pci_order && config.order == sim::DeviceOrder::reverse) std::ranges::reverse(physical);
  for (const std::size_t device : physical) {
    MachineDevice& added = machine.devices.emplace_back();
    added.uuid = uuids.devices[device];
    added.mig_mode = config.mig.contains(int(device));
    for (const std::string& uuid : uuids.instances[device]) {
      added.instances.push_back({uuid, unsigned(added.instances.size() + 1), 0});
    }
  }
  return machine;
}

std::vector<VisibleDeviceCases> all_cases() {
  std::vector<VisibleDeviceCases> all = whole_device_cases();
  for (VisibleDeviceCases& cases : instance_and_order_cases()) all.push_back(std::move(cases));
  return all;
}

/// One device with two GPU instances, the first of which has two compute instances.
Machine two_compute_instances(MigEnumeration enumeration) {
  const MachineDevice device = {"GPU-a", true, {{"MIG-a", 1, 0}, {"MIG-b", 1, 1}, {"MIG-c", 2, 0}}};
  return {{device}, enumeration};
}

std::vector<Place> instances(std::initializer_list<std::size_t> indices) {
  std::vector<Place> places;
  for (const std::size_t index : indices) places.push_back({0, index});
  return places;
}

using enum EntryOutcome;

std::vector<EntryOutcome> outcomes(const VisibleDevices& visible) {
  std::vector<EntryOutcome> all;
  for (const VisibleEntry& entry : visible.entries) all.push_back(entry.outcome);
  return all;
}

Machine four_devices() {
  return {{{"GPU-a", false, {}}, {"GPU-b", false, {}}, {"GPU-c", false, {}}, {"GPU-d", false, {}}},
          MigEnumeration::one_a_gpu_instance};
}

}  // namespace

TEST_CASE("the table has 200 cases or more, and some for every rule") {
  std::size_t count = 0;
  std::set<VisibilityRule> rules;
  for (const VisibleDeviceCases& cases : all_cases()) {
    count += cases.cases.size();
    for (const VisibleDeviceCase& expected : cases.cases) rules.insert(expected.rule);
  }
  CHECK(count >= 200);
  const auto check_used = [&](VisibilityRule rule, std::string_view source) {
    CAPTURE(rule_text(rule));
    CHECK(rules.contains(rule));
    CHECK_FALSE(source.empty());
  };
#define BERTH_CHECK_USED(name, text, source) check_used(VisibilityRule::name, source);
  BERTH_VISIBILITY_RULES(BERTH_CHECK_USED)
#undef BERTH_CHECK_USED
}

TEST_CASE("the rule matches the table of cases and names the wrong entry") {
  for (const VisibleDeviceCases& cases : all_cases()) {
    CAPTURE(cases.machine);
    const sim::Config config = sim::Config::parse(cases.machine);
    const MachineUuids uuids = uuids_of(config);
    std::vector<std::size_t> physical;
    const Machine machine = machine_of(config, cases.order == "PCI_BUS_ID", uuids, physical);
    for (const VisibleDeviceCase& expected : cases.cases) {
      std::optional<std::string> text;
      if (expected.text) text = with_uuids(*expected.text, uuids).value();
      CAPTURE(rule_text(expected.rule));
      CAPTURE(text.value_or("(not set)"));
      const VisibleDevices visible = resolve_visible_devices(text, machine);
      std::string shown;
      for (const Place& place : visible.places) {
        append_place(shown, place_text(physical[place.device], place.instance));
      }
      CHECK(shown == expected.visible);
      std::optional<std::string> wrong;
      if (expected.wrong) wrong = with_uuids(*expected.wrong, uuids).value();
      check_problem(visible.problem, text.value_or(""), wrong);
    }
  }
}

TEST_CASE("an unset variable shows every device, on a machine of any size") {
  for (const std::size_t devices : {0, 1, 4, 64}) {
    Machine machine;
    machine.devices.resize(devices);
    const VisibleDevices visible = resolve_visible_devices(std::nullopt, machine);
    REQUIRE(visible.places.size() == devices);
    for (std::size_t index = 0; index < devices; ++index)
      CHECK(visible.places[index] == Place{index, std::nullopt});
    CHECK(visible.problem.empty());
    CHECK(visible.entries.empty());
  }
}

TEST_CASE("each entry reports its outcome, its device and its ordinals") {
  const VisibleDevices visible = resolve_visible_devices("3,1,x,0", four_devices());
  CHECK(outcomes(visible) == std::vector{shown, shown, invalid, not_read});
  CHECK(visible.entries[0].text == "3");
  CHECK(visible.entries[0].place == Place{3, std::nullopt});
  CHECK(visible.entries[0].ordinals == std::vector{0});
  CHECK(visible.entries[1].ordinals == std::vector{1});
  CHECK(visible.entries[2].text == "x");
  CHECK_FALSE(visible.entries[2].place.has_value());
  CHECK(visible.entries[2].ordinals.empty());
  CHECK(outcomes(resolve_visible_devices("0,-1,1", four_devices())) ==
        std::vector{shown, ends, not_read});
  CHECK(outcomes(resolve_visible_devices("0,1,0,2", four_devices())) ==
        std::vector{cleared, cleared, repeated, not_read});
  CHECK(outcomes(resolve_visible_devices("GPU-a,2,GPU-b", four_devices())) ==
        std::vector{shown, other_kind, not_read});
}

TEST_CASE("a process sees one compute instance of each GPU instance, and before R570 only one") {
  const Machine newer = two_compute_instances(MigEnumeration::one_a_gpu_instance);
  CHECK(resolve_visible_devices(std::nullopt, newer).places == instances({0, 2}));
  CHECK(resolve_visible_devices("0", newer).places == instances({0, 2}));
  CHECK(resolve_visible_devices("MIG-b,MIG-c", newer).places == instances({1, 2}));
  const VisibleDevices both = resolve_visible_devices("MIG-b,MIG-a,MIG-c", newer);
  CHECK(both.places == instances({1, 2}));
  CHECK(outcomes(both) == std::vector{shown, left_out, shown});
  CHECK(both.entries[2].ordinals == std::vector{1});
  CHECK(contains(both.problem, "\"MIG-a\" is left out"));
  CHECK(resolve_visible_devices("0", newer).entries[0].ordinals == std::vector{0, 1});

  const Machine older = two_compute_instances(MigEnumeration::one_a_process);
  CHECK(resolve_visible_devices(std::nullopt, older).places == instances({0}));
  CHECK(resolve_visible_devices("MIG-c,MIG-b", older).places == instances({2}));
  CHECK(resolve_visible_devices("MIG-GPU-a/1/1", older).places == instances({1}));
}

TEST_CASE("drivers of CUDA 12.8 (R570) and later show several instances") {
  CHECK(mig_enumeration_of(12070) == MigEnumeration::one_a_process);
  CHECK(mig_enumeration_of(12080) == MigEnumeration::one_a_gpu_instance);
}

TEST_CASE("a device without a known UUID matches no UUID") {
  Machine machine = four_devices();
  machine.devices[1].uuid.clear();
  CHECK(resolve_visible_devices("GPU-b", machine).places.empty());
  CHECK(resolve_visible_devices("1,0", machine).places.size() == 2);
}

TEST_CASE("a machine without devices lists none and reports so for each entry") {
  const VisibleDevices visible = resolve_visible_devices("0", {});
  CHECK(visible.places.empty());
  CHECK(contains(visible.problem, "\"0\""));
  CHECK(contains(visible.problem, "there are no devices"));
  CHECK(resolve_visible_devices("", {}).problem.empty());
  CHECK(resolve_visible_devices("-1", {}).problem.empty());
  CHECK_FALSE(resolve_visible_devices("GPU-", {}).problem.empty());
}

}  // namespace visible_device_rule_test
