// SPDX-License-Identifier: Apache-2.0
#include "berth/device_map.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "berth/device_registry.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"

namespace berth {
namespace {

constexpr std::string_view kOthers = "*";
constexpr const char* kAccepted =
    "accepted: entries such as cuda:1=cpu, separated by commas, with * for all devices that no "
    "other entry names";

InvalidArgument no_map(std::string_view entry, std::string_view reason) {
  return InvalidArgument(
      format_text("{} is no entry of a device map: {}; {}", quoted(entry), reason, kAccepted));
}

InvalidArgument named_twice(std::string_view saved) {
  return InvalidArgument(format_text("a device map names {} twice; accepted: once each", saved));
}

std::vector<Device> without_repetition(std::span<const Device> devices) {
  std::vector<Device> each(devices.begin(), devices.end());
  std::ranges::sort(each);
  each.erase(std::unique(each.begin(), each.end()), each.end());
  return each;
}

std::string list_of(const DeviceRegistry& devices) {
  std::string list = "cpu";
  for (const DeviceType type : devices.types()) {
    if (type == DeviceType::cpu() || !devices.is_available(type)) continue;
    const int last = devices.count(type) - 1;
    list += last == 0 ? format_text(", {}:0", type.name())
                      : format_text(", {0}:0 to {0}:{1}", type.name(), last);
  }
  return list == "cpu" ? "cpu alone" : list;
}

bool is_there(const DeviceRegistry& devices, Device device) {
  const DeviceType type = device.type();
  // berth does not know the devices of a type without a backend.
  if (!device.is_cpu() && !device.is_cuda() && devices.backend_name(type).empty())
    return devices.backend_problem(type).empty();
  return device.has_ordinal() ? device.ordinal() < devices.count(type) : devices.is_available(type);
}

}  // namespace

DeviceMap::DeviceMap(std::span<const Entry> table) : table_(table.begin(), table.end()) {
  std::ranges::sort(table_, {}, &Entry::saved);
  const auto twice = std::ranges::adjacent_find(table_, {}, &Entry::saved);
  if (twice != table_.end()) throw named_twice(twice->saved.to_string());
}

DeviceMap::DeviceMap(Function function) : function_(std::move(function)) {
  if (function_ == nullptr)
    throw InvalidArgument(
        "the function of a device map is empty; accepted: one that can be called");
}

DeviceMap DeviceMap::all_to(Device target) {
  DeviceMap map;
  map.others_ = target;
  return map;
}

Result<DeviceMap> DeviceMap::try_parse(std::string_view text) {
  DeviceMap map;
  for (const std::string_view entry : split(text, ',')) {
    if (entry.empty()) return no_map(entry, "it is empty");
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) {
      const bool is_device = Device::try_parse(entry).ok();
      return no_map(entry, is_device ? format_text("no = in it; perhaps \"*={}\"", entry)
                                     : std::string("no = in it"));
    }
    const std::string_view from = entry.substr(0, equals);
    Result<Device> target = Device::try_parse(entry.substr(equals + 1));
    if (!target.ok()) return no_map(entry, target.error().what());
    if (from == kOthers) {
      if (map.others_) return named_twice("\"*\"");
      map.others_ = target.value();
      continue;
    }
    Result<Device> saved = Device::try_parse(from);
    if (!saved.ok()) return no_map(entry, saved.error().what());
    if (std::ranges::find(map.table_, saved.value(), &Entry::saved) != map.table_.end())
      return named_twice(saved.value().to_string());
    map.table_.push_back({saved.value(), target.value()});
  }
  std::ranges::sort(map.table_, {}, &Entry::saved);
  return map;
}

DeviceMap DeviceMap::parse(std::string_view text) {
  return try_parse(text).value();
}

Device DeviceMap::operator()(Device saved) const {
  if (function_ != nullptr) return function_(saved);
  const auto entry = std::ranges::lower_bound(table_, saved, {}, &Entry::saved);
  if (entry != table_.end() && entry->saved == saved) return entry->target;
  return others_.value_or(saved);
}

void DeviceMap::check(const DeviceRegistry& devices, std::span<const Device> saved) const {
  std::vector<std::string> missing;
  std::vector<std::string> remedies;
  for (const Device device : without_repetition(saved)) {
    const Device target = (*this)(device);
    if (is_there(devices, target)) continue;
    const std::string name = device.to_string();
    missing.push_back(target == device ? format_text("{} (stays there)", name)
                                       : format_text("{} (goes to {})", name, target.to_string()));
    remedies.push_back(format_text("{}=cpu", name));
  }
  if (missing.empty()) return;
  const std::string& problem = devices.visibility_problem();
  throw InvalidArgument(
      format_text("saved data names devices that do not exist here: {}; there are {}{}{}; map "
                  "them, for example by \"{}\" or \"*=cpu\"",
                  join_texts(missing, ", "), list_of(devices), problem.empty() ? "" : "; ", problem,
                  join_texts(remedies, ",")));
}

}  // namespace berth
