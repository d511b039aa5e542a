// SPDX-License-Identifier: Apache-2.0
#include "device/visibility.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "device/device_order.hpp"
#include "device/visible_entry.hpp"

namespace berth {
namespace {

constexpr const char* kWithheld =
    "a container, a device cgroup or the permissions of /dev/nvidia* may keep this process from "
    "the device, or an MPS server (CUDA_MPS_PIPE_DIRECTORY) may have been started with other "
    "devices";

/// A unique id if the true one is unknown, so that no two devices compare equal.
unsigned id_or(int id, std::size_t other) {
  return id >= 0 ? static_cast<unsigned>(id) : static_cast<unsigned>(other) + (1U << 31);
}

/// The devices that CUDA shows, or whose instances it shows, in its order.
std::vector<std::size_t> shown_devices(const DeviceList& list) {
  std::vector<std::pair<int, std::size_t>> shown;
  for (const auto* part : {&list.devices, &list.instances}) {
    for (const DeviceInfo& info : *part) {
      if (info.logical) shown.emplace_back(*info.logical, std::size_t(info.physical));
    }
  }
  std::sort(shown.begin(), shown.end());
  std::vector<std::size_t> devices;
  for (const auto& [ordinal, device] : shown) devices.push_back(device);
  return devices;
}

bool names_place(const VisibleEntry& entry, const std::optional<Place>& named, const Place& place) {
  const std::optional<Place>& what = entry.place ? entry.place : named;
  if (!what || what->device != place.device) return false;
  return !what->instance || what->instance == place.instance;
}

}  // namespace

std::string all_hidden_hint(const std::optional<std::string>& visible) {
  if (!visible) return {};
  if (visible->empty()) return "; CUDA_VISIBLE_DEVICES is empty, which hides every device";
  return format_text("; CUDA_VISIBLE_DEVICES is \"{}\"", on_one_line(*visible));
}

Visibility::Visibility(const DeviceList& list, VisibilityVariables variables,
                       VisibilitySource source)
    : list_(list), variables_(std::move(variables)), source_(std::move(source)) {
  order_ = cuda_order({.order = variables_.order,
                       .visible = variables_.visible,
                       .devices = list.devices.size(),
                       .shown = shown_devices(list)});
  BERTH_CHECK(order_.size() == list.devices.size());
  BERTH_CHECK(source_.node_faults.empty() || source_.node_faults.size() == list.devices.size());
  machine_.mig_enumeration = mig_enumeration_of(source_.driver_version);
  for (const std::size_t index : order_) {
    MachineDevice device{list.devices[index].uuid, list.devices[index].mig_mode, {}};
    std::vector<std::size_t> instances;
    for (std::size_t place = 0; place < list.instances.size(); ++place) {
      const DeviceInfo& instance = list.instances[place];
      if (std::size_t(instance.physical) != index) continue;
      device.instances.push_back({instance.uuid, id_or(instance.mig_instance->gpu_instance, place),
                                  id_or(instance.mig_instance->compute_instance, place)});
      instances.push_back(place);
    }
    machine_.devices.push_back(std::move(device));
    instances_.push_back(std::move(instances));
  }
  by_rule_ = resolve_visible_devices(variables_.visible, machine_);
  agrees_ = by_rule_.places == places_shown();
  find_problem();
}

const DeviceInfo& Visibility::info(const Place& place) const {
  if (place.instance) return list_.instances[instances_[place.device][*place.instance]];
  return list_.devices[order_[place.device]];
}

std::vector<Place> Visibility::places_shown() const {
  std::vector<std::pair<int, Place>> shown;
  const auto add = [&](const Place& place) {
    if (info(place).logical) shown.emplace_back(*info(place).logical, place);
  };
  for (std::size_t device = 0; device < order_.size(); ++device) {
    add({device, {}});
    for (std::size_t instance = 0; instance < instances_[device].size(); ++instance) {
      add({device, instance});
    }
  }
  std::sort(shown.begin(), shown.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Place> places;
  for (const auto& [ordinal, place] : shown) places.push_back(place);
  return places;
}

void Visibility::find_problem() {
  if (!variables_.visible || !source_.all_known) return;
  problem_ = by_rule_.problem;
  // A driver that does not work shows no devices, whatever the value of the variable.
  if (!problem_.empty() || agrees_ || !source_.driver_problem.empty()) return;
  problem_ = format_text(
      "{} names {} devices, but the driver shows {}: {}", variable(), by_rule_.places.size(),
      by_rule_.places.size() == places_shown().size() ? "others"
                                                      : std::to_string(places_shown().size()),
      why_withheld());
}

std::string Visibility::why_withheld() const {
  for (const Place& place : by_rule_.places) {
    const std::string& fault = source_.node_faults[order_[place.device]];
    if (!info(place).logical && !fault.empty()) return fault;
  }
  return format_text(
      "the variable was changed after the driver had read it, which happens once in a process, or "
      "{}",
      kWithheld);
}

std::string Visibility::variable() const {
  return format_text("CUDA_VISIBLE_DEVICES=\"{}\"", on_one_line(variables_.visible.value_or("")));
}

std::string Visibility::described(const VisibleEntry& entry) const {
  const auto number = &entry - by_rule_.entries.data() + 1;
  return format_text("entry {} of {}, \"{}\"", number, variable(), on_one_line(entry.text));
}

std::vector<DeviceExplanation> Visibility::explain(const std::string& remark) const {
  std::vector<DeviceExplanation> explanations(list_.devices.size());
  std::vector<std::vector<DeviceExplanation>> of_instances(list_.devices.size());
  const auto explained = [&](const Place& place) -> DeviceExplanation {
    const DeviceInfo& what = info(place);
    const std::string sentence =
        claim(what, place) + (remark.empty() ? "." : format_text(" ({}).", remark));
    return {what.logical, what.physical, what.name, what.uuid, what.pci_bus_id, sentence};
  };
  for (std::size_t device = 0; device < order_.size(); ++device) {
    explanations[order_[device]] = explained({device, {}});
    for (std::size_t instance = 0; instance < instances_[device].size(); ++instance) {
      of_instances[order_[device]].push_back(explained({device, instance}));
    }
  }
  std::vector<DeviceExplanation> all;
  for (std::size_t index = 0; index < explanations.size(); ++index) {
    all.push_back(std::move(explanations[index]));
    for (DeviceExplanation& instance : of_instances[index]) all.push_back(std::move(instance));
  }
  return all;
}

std::string Visibility::claim(const DeviceInfo& info, const Place& place) const {
  if (info.logical) {
    return format_text("Visible as cuda:{}: {}", *info.logical, why_visible(*info.logical, place));
  }
  if (info.mig_mode && !instances_[place.device].empty()) {
    return "Hidden: MIG has split it, and CUDA lists its instances instead";
  }
  return "Hidden: " + why_hidden(info, place);
}

std::string Visibility::why_visible(int ordinal, const Place& place) const {
  if (!agrees_) return "the driver lists it";
  if (!variables_.visible) return "CUDA_VISIBLE_DEVICES is not set, so no device is hidden";
  const auto entry = std::find_if(
      by_rule_.entries.begin(), by_rule_.entries.end(), [&](const VisibleEntry& candidate) {
        return std::count(candidate.ordinals.begin(), candidate.ordinals.end(), ordinal) != 0;
      });
  if (entry == by_rule_.entries.end()) return "the driver lists it";
  const bool through_device = place.instance && !entry->place->instance;
  return format_text("{}, names {}", described(*entry),
                     through_device ? "its device, which MIG has split" : "it");
}

std::string Visibility::why_hidden(const DeviceInfo& info, const Place& place) const {
  if (info.lost) return "it does not respond, NVML reports it as lost";
  if (info.mig_mode) return "it is in MIG mode without instances, so CUDA cannot use it";
  if (!agrees_) {
    const auto rule = std::find(by_rule_.places.begin(), by_rule_.places.end(), place);
    const bool shown_by_rule = rule != by_rule_.places.end();
    if (shown_by_rule && !source_.driver_problem.empty()) {
      return "the CUDA driver does not work: " + source_.driver_problem;
    }
    if (shown_by_rule) {
      const std::string& fault = source_.node_faults[order_[place.device]];
      if (!fault.empty()) return fault;
      if (!variables_.visible) {
        return format_text(
            "the driver does not list it, although CUDA_VISIBLE_DEVICES is not set: {}", kWithheld);
      }
      return format_text(
          "the driver does not list it, although {} does: the variable was changed after the "
          "driver had "
          "read it, which happens once in a process, or {}",
          variable(), kWithheld);
    }
  }
  if (!variables_.visible) return mig_limit();
  if (variables_.visible->empty()) return "CUDA_VISIBLE_DEVICES is empty, which hides every device";
  for (const VisibleEntry& entry : by_rule_.entries) {
    if (names_place(entry, find_place(entry.text, machine_).place, place))
      return why_not_reached(entry);
  }
  return format_text("{} does not name it", variable());
}

std::string Visibility::why_not_reached(const VisibleEntry& entry) const {
  const auto first = [&](auto&& wanted) -> const VisibleEntry& {
    const auto found = std::find_if(by_rule_.entries.begin(), by_rule_.entries.end(), wanted);
    return found == by_rule_.entries.end() ? entry : *found;
  };
  switch (entry.outcome) {
    case EntryOutcome::cleared:
    case EntryOutcome::repeated: {
      const VisibleEntry& again = first([](const VisibleEntry& candidate) {
        return candidate.outcome == EntryOutcome::repeated;
      });
      return format_text("{}, repeats a device, which hides all devices", described(again));
    }
    case EntryOutcome::other_kind:
      return format_text("{}, is of another kind than the first entry, which ends the list",
                         described(entry));
    case EntryOutcome::not_read: {
      const VisibleEntry& last = first([](const VisibleEntry& candidate) {
        return candidate.outcome == EntryOutcome::ends ||
               candidate.outcome == EntryOutcome::invalid ||
               candidate.outcome == EntryOutcome::other_kind ||
               candidate.outcome == EntryOutcome::repeated;
      });
      return format_text("{}, names it, but CUDA stops reading at \"{}\"", described(entry),
                         on_one_line(last.text));
    }
    default:
      return format_text("{}, names it, but {}", described(entry), mig_limit());
  }
}

std::string Visibility::mig_limit() const {
  return machine_.mig_enumeration == MigEnumeration::one_a_process
             ? "this driver lists at most one MIG instance for a process, and no other device"
             : "only one compute instance of a GPU instance is visible to a process";
}

}  // namespace berth
