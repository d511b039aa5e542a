// SPDX-License-Identifier: Apache-2.0
#include "device/visible_devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace berth {
namespace {

struct Entry {
  std::optional<std::size_t> device;
  std::string problem;  ///< empty where the entry ends the list on purpose
};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Entry resolve_uuid(std::string_view prefix, const std::vector<std::string>& uuids) {
  Entry entry;
  for (std::size_t index = 0; index < uuids.size(); ++index) {
    if (!starts_with(uuids[index], prefix)) continue;
    if (entry.device) return {std::nullopt, "fits more than one device"};
    entry.device = index;
  }
  if (!entry.device) entry.problem = "fits no device";
  return entry;
}

Entry resolve_ordinal(const std::string& text, std::size_t count) {
  char* end = nullptr;
  const long long ordinal = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str()) return {std::nullopt, "is neither an ordinal nor a GPU- UUID"};
  if (ordinal == -1) return {};
  if (ordinal < 0) return {std::nullopt, "is negative"};
  if (static_cast<unsigned long long>(ordinal) >= count) {
    return {std::nullopt, fmt::format("is beyond the last of {} devices", count)};
  }
  return {static_cast<std::size_t>(ordinal), {}};
}

}  // namespace

VisibleDevices resolve_visible_devices(const std::optional<std::string>& text,
                                       const std::vector<std::string>& uuids) {
  VisibleDevices visible;
  if (!text) {
    for (std::size_t index = 0; index < uuids.size(); ++index) visible.devices.push_back(index);
    return visible;
  }
  const auto reject = [&](std::string_view entry, std::string_view reason) {
    visible.problem = fmt::format(
        "CUDA_VISIBLE_DEVICES=\"{}\": \"{}\" {}; accepted: ordinals from 0 to {} or GPU- UUIDs, "
        "separated by commas, each device once",
        *text, entry, reason, std::int64_t(uuids.size()) - 1);
  };

  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t comma = std::min(text->find(',', begin), text->size());
    const std::string token = text->substr(begin, comma - begin);
    begin = comma + 1;
    if (starts_with(token, "MIG-")) break;
    const bool is_uuid = starts_with(token, "GPU-");
    if (!visible.devices.empty() && is_uuid != starts_with(*text, "GPU-")) {
      reject(token, "is a UUID among ordinals, or the other way round");
      break;
    }
    const Entry entry = is_uuid ? resolve_uuid(token, uuids) : resolve_ordinal(token, uuids.size());
    if (!entry.device) {
      if (!entry.problem.empty()) reject(token, entry.problem);
      break;
    }
    auto& devices = visible.devices;
    if (std::find(devices.begin(), devices.end(), *entry.device) != devices.end()) {
      reject(token, "names a device that is named before, which hides all devices");
      devices.clear();
      break;
    }
    devices.push_back(*entry.device);
  }
  return visible;
}

}  // namespace berth
