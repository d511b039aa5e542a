// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Programming Guide, "CUDA Environment Variables"; Multi-Instance GPU User Guide,
// "CUDA Device Enumeration".
#include "sim/device/enumeration.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/env.hpp"
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

/// An instance's name in drivers before R470.
std::string older_name(const State& state, const MigInstance& instance) {
  return fmt::format("MIG-{}/{}/{}", uuid_text(facts_at(state, instance.parent)),
                     instance.gpu_instance_id(), instance.compute_instance_id());
}

/// The first instance for which `wanted` is true, or none.
template <class Wanted>
std::vector<int> first_instance(const State& state, Wanted&& wanted) {
  for (const Device& device : state.devices)
    if (device.facts.mig && wanted(device.facts)) return {device.facts.slot};
  return {};
}

}  // namespace

// A process sees one instance at most, and then nothing else.
std::vector<int> enumerate_devices(const State& state) {
  const std::optional<std::string> text = env("CUDA_VISIBLE_DEVICES");
  if (text && text->starts_with(kMigPrefix)) {
    const std::string_view name = std::string_view(*text).substr(0, text->find(','));
    return first_instance(state, [&](const DeviceFacts& facts) {
      return name == uuid_text(facts) || name == older_name(state, *facts.mig);
    });
  }
  const std::vector<int> visible = visible_whole_devices(state, text);
  for (const int slot : visible) {
    std::vector<int> instance =
        first_instance(state, [&](const DeviceFacts& facts) { return facts.mig->parent == slot; });
    if (!instance.empty()) return instance;
  }
  std::vector<int> whole;
  for (const int slot : visible)
    if (!state.config.mig.contains(slot)) whole.push_back(slot);
  return whole;
}

}  // namespace berth::sim
