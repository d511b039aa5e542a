// SPDX-License-Identifier: Apache-2.0
#include "device/visible_devices.hpp"

#include <algorithm>
#include <string_view>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "device/visible_entry.hpp"

namespace berth {
namespace {

constexpr int kCudaOfR570 = 12080;

/// The places that CUDA may show for `place`: itself, or the instances of a split device.
std::vector<Place> parts_of(const Machine& machine, const Place& place) {
  const MachineDevice& device = machine.devices[place.device];
  if (place.instance || !device.mig_mode) return {place};
  std::vector<Place> parts;
  for (std::size_t index = 0; index < device.instances.size(); ++index) {
    parts.push_back({place.device, index});
  }
  return parts;
}

bool share_gpu_instance(const Machine& machine, const Place& one, const Place& other) {
  if (one.device != other.device || !one.instance || !other.instance) return false;
  const auto& instances = machine.devices[one.device].instances;
  return instances[*one.instance].gpu_instance == instances[*other.instance].gpu_instance;
}

/// The `parts`, in their order, that MIG's rules show together.
std::vector<bool> shown_beside_each_other(const Machine& machine, const std::vector<Place>& parts) {
  std::vector<bool> shown(parts.size(), true);
  if (machine.mig_enumeration == MigEnumeration::one_a_process) {
    const auto instance = std::find_if(parts.begin(), parts.end(),
                                       [](const Place& part) { return part.instance.has_value(); });
    if (instance == parts.end()) return shown;
    shown.assign(parts.size(), false);
    shown[static_cast<std::size_t>(instance - parts.begin())] = true;
    return shown;
  }
  for (std::size_t index = 0; index < parts.size(); ++index) {
    for (std::size_t before = 0; before < index; ++before) {
      if (shown[before] && share_gpu_instance(machine, parts[before], parts[index])) {
        shown[index] = false;
      }
    }
  }
  return shown;
}

/// The places in a process without CUDA_VISIBLE_DEVICES.
std::vector<Place> show_everything(const Machine& machine) {
  std::vector<Place> parts;
  for (std::size_t device = 0; device < machine.devices.size(); ++device) {
    for (const Place& part : parts_of(machine, {device, {}})) parts.push_back(part);
  }
  const std::vector<bool> shown = shown_beside_each_other(machine, parts);
  std::vector<Place> places;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (shown[index]) places.push_back(parts[index]);
  }
  return places;
}

std::string accepted(const Machine& machine) {
  if (machine.devices.empty()) return "there are no devices to name";
  return format_text(
      "accepted: ordinals from 0 to {}, or GPU- UUIDs, or MIG- UUIDs, separated by commas, each "
      "device once",
      machine.devices.size() - 1);
}

/// Reads one variable on one machine.
class Reader {
 public:
  Reader(const std::string& text, const Machine& machine) : text_(text), machine_(machine) {}

  VisibleDevices read() {
    if (!text_.empty()) read_entries();
    show_places();
    return std::move(result_);
  }

 private:
  void read_entries() {
    const std::vector<std::string_view> texts = split(text_, ',');
    bool goes_on = true;
    for (std::size_t index = 0; index < texts.size(); ++index) {
      // An empty text after the last comma is not an entry.
      if (index > 0 && index + 1 == texts.size() && texts[index].empty()) break;
      VisibleEntry entry{std::string(texts[index]), EntryOutcome::not_read, {}, {}};
      if (goes_on) goes_on = read_entry(entry);
      result_.entries.push_back(std::move(entry));
    }
  }

  /// Whether the list goes on behind `entry`.
  bool read_entry(VisibleEntry& entry) {
    if (kind_of(entry.text) != kind_of(text_)) {
      entry.outcome = EntryOutcome::other_kind;
      complain(entry, "is of another kind than the first entry");
      return false;
    }
    const NamedPlace named = find_place(entry.text, machine_);
    if (!named.place) {
      entry.outcome = named.problem.empty() ? EntryOutcome::ends : EntryOutcome::invalid;
      if (!named.problem.empty()) complain(entry, named.problem);
      return false;
    }
    const bool repeated =
        std::any_of(result_.entries.begin(), result_.entries.end(),
                    [&](const VisibleEntry& before) { return before.place == named.place; });
    if (!named.problem.empty()) complain(entry, named.problem);
    entry.place = named.place;
    entry.outcome = repeated ? EntryOutcome::repeated : EntryOutcome::shown;
    if (!repeated) return true;
    complain(entry, "names a device that is named before, which hides all devices");
    for (VisibleEntry& before : result_.entries) before.outcome = EntryOutcome::cleared;
    return false;
  }

  /// Assigns ordinals to the places that the entries name, as far as MIG's rules permit.
  void show_places() {
    std::vector<Place> parts;
    std::vector<VisibleEntry*> entries;  // the entry of each part
    for (VisibleEntry& entry : result_.entries) {
      if (entry.outcome != EntryOutcome::shown) continue;
      const std::vector<Place> own = parts_of(machine_, *entry.place);
      if (own.empty()) {
        entry.outcome = EntryOutcome::no_instances;
        complain(entry, "names a device in MIG mode that has no instances");
      }
      parts.insert(parts.end(), own.begin(), own.end());
      entries.insert(entries.end(), own.size(), &entry);
    }
    const std::vector<bool> shown = shown_beside_each_other(machine_, parts);
    for (std::size_t index = 0; index < parts.size(); ++index) {
      if (!shown[index]) continue;
      entries[index]->ordinals.push_back(static_cast<int>(result_.places.size()));
      result_.places.push_back(parts[index]);
    }
    for (VisibleEntry& entry : result_.entries) {
      if (entry.outcome != EntryOutcome::shown || !entry.ordinals.empty()) continue;
      entry.outcome = EntryOutcome::left_out;
      complain(
          entry,
          machine_.mig_enumeration == MigEnumeration::one_a_process
              ? "is left out: this driver shows a process one MIG instance at most, and "
                "nothing beside it"
              : "is left out: only one compute instance of a GPU instance is visible to a process");
    }
  }

  void complain(const VisibleEntry& entry, std::string_view reason) {
    if (!result_.problem.empty()) return;
    result_.problem = format_text("CUDA_VISIBLE_DEVICES=\"{}\": \"{}\" {}; {}", on_one_line(text_),
                                  on_one_line(entry.text), reason, accepted(machine_));
  }

  const std::string& text_;
  const Machine& machine_;
  VisibleDevices result_;
};

}  // namespace

MigEnumeration mig_enumeration_of(int driver_version) {
  return driver_version >= kCudaOfR570 ? MigEnumeration::one_a_gpu_instance
                                       : MigEnumeration::one_a_process;
}

VisibleDevices resolve_visible_devices(const std::optional<std::string>& text,
                                       const Machine& machine) {
  if (text) return Reader(*text, machine).read();
  VisibleDevices visible;
  visible.places = show_everything(machine);
  return visible;
}

}  // namespace berth
