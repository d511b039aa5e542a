// SPDX-License-Identifier: Apache-2.0
#include "device/visible_entry.hpp"

#include <cstdlib>

#include "base/format.hpp"

namespace berth {
namespace {

constexpr std::string_view kDevicePrefix = "GPU-";
constexpr std::string_view kInstancePrefix = "MIG-";

std::string no_ordinal(std::string_view entry) {
  std::string problem = "is neither an ordinal nor a GPU- or MIG- UUID";
  if (entry == "all" || entry == "none" || entry == "void")
    problem += ", but a word of NVIDIA_VISIBLE_DEVICES, which the container runtime reads";
  return problem;
}

/// The error if text other than blanks follows the number.
std::string misread(std::string_view rest, long long ordinal) {
  if (rest.find_first_not_of(" \t\n\v\f\r") == rest.npos) return {};
  return format_text("is read as {}, because CUDA reads digits and ignores what follows them",
                     ordinal);
}

NamedPlace find_by_ordinal(std::string_view entry, const Machine& machine) {
  const std::string text(entry);
  char* end = nullptr;
  // A number that is too large becomes the maximum, which is not an ordinal either.
  const long long ordinal = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str()) return {{}, no_ordinal(entry)};
  if (ordinal == -1) return {};
  if (ordinal < 0) return {{}, "is negative"};
  const std::size_t count = machine.devices.size();
  if (static_cast<unsigned long long>(ordinal) >= count) {
    return {{}, format_text("is beyond the last of {} devices", count)};
  }
  return {Place{static_cast<std::size_t>(ordinal), {}}, misread(end, ordinal)};
}

NamedPlace find_by_uuid(std::string_view beginning, const Machine& machine) {
  NamedPlace found;
  for (std::size_t device = 0; device < machine.devices.size(); ++device) {
    if (!machine.devices[device].uuid.starts_with(beginning)) continue;
    if (found.place) return {{}, "fits more than one device"};
    found.place = {device, {}};
  }
  if (!found.place) found.problem = "matches no device";
  return found;
}

/// The name of an instance in drivers before R470, which later drivers still accept.
std::string older_name(const MachineDevice& device, const MachineInstance& instance) {
  return format_text("{}{}/{}/{}", kInstancePrefix, device.uuid, instance.gpu_instance,
                     instance.compute_instance);
}

NamedPlace find_instance(std::string_view name, const Machine& machine) {
  for (std::size_t device = 0; device < machine.devices.size(); ++device) {
    const MachineDevice& candidate = machine.devices[device];
    for (std::size_t index = 0; index < candidate.instances.size(); ++index) {
      const MachineInstance& instance = candidate.instances[index];
      if (name == instance.uuid || name == older_name(candidate, instance)) {
        return {Place{device, index}, {}};
      }
    }
  }
  return {{}, "is no MIG instance"};
}

}  // namespace

EntryKind kind_of(std::string_view entry) {
  if (entry.starts_with(kDevicePrefix)) return EntryKind::device_uuid;
  if (entry.starts_with(kInstancePrefix)) return EntryKind::instance_name;
  return EntryKind::ordinal;
}

NamedPlace find_place(std::string_view entry, const Machine& machine) {
  switch (kind_of(entry)) {
    case EntryKind::device_uuid:
      return find_by_uuid(entry, machine);
    case EntryKind::instance_name:
      return find_instance(entry, machine);
    case EntryKind::ordinal:
      break;
  }
  return find_by_ordinal(entry, machine);
}

}  // namespace berth
