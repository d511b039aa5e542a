// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "berth/device_pick.hpp"
#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "device/visibility.hpp"

namespace berth {
namespace {

/// The length of both prefixes.
constexpr std::size_t kPrefixBytes = 4;
/// The maximum number of devices in an error.
constexpr std::size_t kDevicesListedMax = 8;

std::string list_of(const std::vector<std::string>& texts) {
  const std::size_t listed = std::min(texts.size(), kDevicesListedMax);
  const std::string more =
      listed < texts.size() ? format_text(" and {} more", texts.size() - listed) : "";
  return join_texts(std::span(texts).first(listed), ", ") + more;
}

std::string accepted(const DeviceRegistry& devices) {
  if (devices.count() == 0) {
    const std::string& problem = devices.visibility_problem();
    return "there are no CUDA devices" +
           (problem.empty() ? all_hidden_hint(devices.visible_devices()) : "; " + problem);
  }
  std::vector<std::string> texts;
  for (int ordinal = 0; ordinal < devices.count(); ++ordinal) {
    const Device device = Device::cuda(ordinal);
    const std::string& uuid = devices.info(device).uuid;
    texts.push_back(
        format_text("{} ({})", device.to_string(), uuid.empty() ? "UUID unknown" : uuid));
  }
  return "accepted: the UUID, or its beginning, of " + list_of(texts);
}

[[noreturn]] void refuse(const DeviceRegistry& devices, std::string_view uuid,
                         std::string_view reason) {
  throw InvalidArgument(format_text("{} {}; {}", quoted(uuid), reason, accepted(devices)));
}

/// The name of an instance in drivers before R470, which CUDA still accepts.
bool has_older_name(const DeviceRegistry& devices, const DeviceInfo& info, std::string_view name) {
  if (!info.mig_instance) return false;
  const auto parent = static_cast<std::size_t>(info.physical);
  const MigInstanceIds& ids = *info.mig_instance;
  return name == format_text("MIG-{}/{}/{}", devices.physical_devices()[parent].uuid,
                             ids.gpu_instance, ids.compute_instance);
}

/// Every device and instance, visible or hidden, with this UUID or a UUID that begins with this
/// text.
std::vector<const DeviceInfo*> find_all(const DeviceRegistry& devices, std::string_view uuid) {
  std::vector<const DeviceInfo*> found;
  for (const auto* list : {&devices.physical_devices(), &devices.mig_instances()}) {
    for (const DeviceInfo& info : *list) {
      if (info.uuid.starts_with(uuid) || has_older_name(devices, info, uuid))
        found.push_back(&info);
    }
  }
  return found;
}

std::string why_hidden(const DeviceRegistry& devices, const DeviceInfo& hidden) {
  for (const DeviceExplanation& explanation : devices.explain()) {
    if (explanation.uuid == hidden.uuid && explanation.physical == hidden.physical) {
      return explanation.sentence.substr(0, explanation.sentence.rfind('.'));
    }
  }
  return "Hidden";
}

std::string instances_of(const DeviceRegistry& devices, const DeviceInfo& device) {
  std::vector<std::string> uuids;
  for (const DeviceInfo& instance : devices.mig_instances()) {
    if (instance.physical == device.physical) uuids.push_back(instance.uuid);
  }
  return uuids.empty() ? "" : ": " + list_of(uuids);
}

}  // namespace

Device find_device(const DeviceRegistry& devices, std::string_view uuid) {
  const bool is_uuid = uuid.starts_with("GPU-") || uuid.starts_with("MIG-");
  if (!is_uuid || uuid.size() == kPrefixBytes) {
    refuse(devices, uuid,
           "is not the UUID of a device: GPU- or MIG-, followed by hexadecimal digits");
  }
  const std::vector<const DeviceInfo*> found = find_all(devices, uuid);
  if (found.empty()) refuse(devices, uuid, "matches no device");
  if (found.size() > 1) {
    std::vector<std::string> uuids;
    for (const DeviceInfo* info : found) uuids.push_back(info->uuid);
    refuse(devices, uuid, "matches several devices: " + list_of(uuids));
  }
  const DeviceInfo& info = *found.front();
  if (devices.physical_devices()[static_cast<std::size_t>(info.physical)].lost)
    refuse(devices, uuid, "does not respond, NVML reports it as lost");
  if (info.visible()) return Device::cuda(*info.logical);
  if (info.mig_mode)
    refuse(devices, uuid,
           "is split by MIG and used as its instances" + instances_of(devices, info));
  refuse(devices, uuid,
         format_text("exists, but is not visible to this process ({})", why_hidden(devices, info)));
}

}  // namespace berth
