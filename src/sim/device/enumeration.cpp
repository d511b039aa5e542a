// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User Guide,
// "CUDA Device Enumeration".
#include "sim/device/enumeration.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/format.hpp"
#include "sim/device/visible_devices.hpp"

namespace berth::sim {
namespace {

constexpr std::string_view kMigPrefix = "MIG-";

const DeviceFacts& facts_at(const State& state, int place) {
  return state.devices[static_cast<std::size_t>(place)].facts;
}

/// The whole devices in the order in which CUDA counts before anything is hidden.
std::vector<int> whole_devices(const State& state) {
  std::vector<int> slots;
  for (int slot = 0; slot < state.config.devices; ++slot) slots.push_back(slot);
  const bool by_address = env("CUDA_DEVICE_ORDER").value_or("") == "PCI_BUS_ID";
  if (!by_address && state.config.order == DeviceOrder::reverse)
    std::reverse(slots.begin(), slots.end());
  return slots;
}

std::vector<int> visible_whole_devices(const State& state, const std::optional<std::string>& text) {
  const std::vector<int> slots = whole_devices(state);
  std::vector<std::string> uuids;
  for (const int slot : slots) uuids.push_back(uuid_text(facts_at(state, slot)));
  std::vector<int> visible;
  for (const int place : visible_devices(text, uuids))
    visible.push_back(slots[static_cast<std::size_t>(place)]);
  return visible;
}

/// Drivers before this one, R570, show a process one instance and then no whole device; since then
/// it sees one compute instance of every GPU instance.
constexpr int kManyInstancesVersion = 12080;

bool shows_many_instances(const State& state) {
  return state.config.driver_version >= kManyInstancesVersion;
}

/// An instance's name in drivers before R470.
std::string older_name(const State& state, const MigInstance& instance) {
  return format_text("MIG-{}/{}/{}", uuid_text(facts_at(state, instance.parent)),
                     instance.gpu_instance_id(), instance.compute_instance_id());
}

std::optional<int> find_instance(const State& state, std::string_view name) {
  for (const Device& device : state.devices)
    if (device.facts.mig &&
        (name == uuid_text(device.facts) || name == older_name(state, *device.facts.mig)))
      return device.facts.slot;
  return std::nullopt;
}

std::vector<int> instances_of(const State& state, int parent) {
  std::vector<int> slots;
  for (const Device& device : state.devices)
    if (device.facts.mig && device.facts.mig->parent == parent) slots.push_back(device.facts.slot);
  return slots;
}

/// The instances that a list names before the first entry that names none. None where the list
/// names one twice.
std::vector<int> named_instances(const State& state, std::string_view list) {
  std::vector<int> named;
  for (;;) {
    const auto comma = list.find(',');
    const std::optional<int> slot = find_instance(state, list.substr(0, comma));
    if (!slot) return named;
    if (std::find(named.begin(), named.end(), *slot) != named.end()) return {};
    named.push_back(*slot);
    if (comma == std::string_view::npos) return named;
    list.remove_prefix(comma + 1);
  }
}

/// The whole devices of a list, those that are split replaced by their instances.
std::vector<int> with_instances(const State& state, const std::vector<int>& whole) {
  std::vector<int> slots;
  for (const int slot : whole) {
    if (!state.config.mig.contains(slot)) {
      slots.push_back(slot);
      continue;
    }
    const std::vector<int> instances = instances_of(state, slot);
    slots.insert(slots.end(), instances.begin(), instances.end());
  }
  return slots;
}

}  // namespace

std::vector<int> enumerate_devices(const State& state) {
  const std::optional<std::string> text = env("CUDA_VISIBLE_DEVICES");
  const std::vector<int> slots = text && text->starts_with(kMigPrefix)
                                     ? named_instances(state, *text)
                                     : with_instances(state, visible_whole_devices(state, text));
  if (shows_many_instances(state)) return slots;
  const auto instance = std::find_if(
      slots.begin(), slots.end(), [&](int slot) { return facts_at(state, slot).mig.has_value(); });
  return instance == slots.end() ? slots : std::vector{*instance};
}

}  // namespace berth::sim
