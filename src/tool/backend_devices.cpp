// SPDX-License-Identifier: Apache-2.0
#include "tool/backend_devices.hpp"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "tool/printable.hpp"
#include "tool/table.hpp"
#include "tool/wrapped.hpp"

namespace berth::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDetailIndent = 10;

/// Types other than `cpu` and `cuda` that have a backend, or a reason why they have none.
std::vector<DeviceType> types_of(const DeviceRegistry& devices) {
  std::vector<DeviceType> types;
  for (int number = 2; number < DeviceType::count(); ++number) {
    const DeviceType type = *DeviceType::from_number(number);
    if (!devices.backend_name(type).empty() || !devices.backend_problem(type).empty())
      types.push_back(type);
  }
  return types;
}

/// Empty if the backend fails to report it; an attribute of the device may say why.
BackendMemory memory_of(const DeviceRegistry& devices, Device device) {
  try {
    return devices.device_memory(device);
  } catch (const Error&) {
    return {};
  }
}

std::string attribute_text(const DeviceAttribute& attribute) {
  struct Write {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return fmt::to_string(value); }
    std::string operator()(double value) const { return fmt::to_string(value); }
    std::string operator()(const std::string& value) const { return printable(value); }
    std::string operator()(const std::vector<std::int64_t>& values) const {
      return fmt::format("{}", fmt::join(values, ","));
    }
  };
  return fmt::format("{} {}", printable(attribute.name), std::visit(Write{}, attribute.value));
}

std::vector<std::string> texts_of(const std::vector<DeviceAttribute>& attributes) {
  std::vector<std::string> texts;
  for (const DeviceAttribute& attribute : attributes) texts.push_back(attribute_text(attribute));
  return texts;
}

std::string facts_line(const DeviceRegistry& devices, Device device,
                       const DeviceDescription& description) {
  std::vector<std::string> parts = texts_of(description.attributes);
  if (const auto used = memory_of(devices, device).bytes_used)
    parts.push_back(format_bytes(*used) + " in use");
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json or_null(const std::optional<std::uint64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const std::vector<DeviceAttribute>& attributes) {
  Json json = Json::object();
  for (const DeviceAttribute& attribute : attributes)
    std::visit([&](const auto& value) { json[attribute.name] = value; }, attribute.value);
  return json;
}

Json device_json(const DeviceRegistry& devices, Device device) {
  const DeviceDescription description = devices.describe(device);
  const BackendMemory memory = memory_of(devices, device);
  return {
      {"device", device.to_string()},
      {"name", description.name},
      {"kind", description.kind},
      {"memory_bytes", or_null(description.memory_bytes)},
      {"memory",
       {{"bytes_used", or_null(memory.bytes_used)}, {"bytes_limit", or_null(memory.bytes_limit)}}},
      {"attributes", json_of(description.attributes)}};
}

std::string device_rows(const Table& table, const DeviceRegistry& devices, Device device) {
  const DeviceDescription description = devices.describe(device);
  const std::string memory =
      description.memory_bytes ? format_bytes(*description.memory_bytes) : "unknown";
  return table.row({device.to_string(), memory, printable(description.kind)}) +
         wrapped(printable(description.name), kDetailIndent) +
         wrapped(facts_line(devices, device, description), kDetailIndent);
}

}  // namespace

std::string backend_devices_text(const DeviceRegistry& devices, bool explain) {
  const Table table({{"device", 8}, {"memory", 9, true}, {"kind", 0}});
  std::string text;
  for (const DeviceType type : types_of(devices)) {
    if (!text.empty()) text += '\n';
    const std::string problem = devices.backend_problem(type);
    const std::string title = problem.empty()
                                  ? fmt::format("{}: {}", type.name(), devices.backend_name(type))
                                  : fmt::format("{}: no devices: {}", type.name(), problem);
    text += wrapped(printable(title), 0);
    const std::vector<std::string> facts = texts_of(devices.backend_attributes(type));
    if (!facts.empty()) text += wrapped(fmt::format("{}", fmt::join(facts, ", ")), kDetailIndent);
    const std::vector<DeviceExplanation> explained = devices.explain(type);
    if (problem.empty() || !explained.empty()) text += table.header();
    for (const DeviceExplanation& each : explained) {
      text += each.logical
                  ? device_rows(table, devices, Device::of(type, *each.logical))
                  : table.row({"hidden", "unknown", fmt::format("chip {}", each.physical)});
      if (explain) text += wrapped(printable(each.sentence), kDetailIndent);
    }
  }
  return text;
}

Json backend_devices_json(const DeviceRegistry& devices) {
  Json list = Json::array();
  for (const DeviceType type : types_of(devices)) {
    const std::string problem = devices.backend_problem(type);
    const std::string name = devices.backend_name(type);
    Json& entry =
        list.emplace_back(Json{{"type", type.name()},
                               {"backend", name.empty() ? Json(nullptr) : Json(name)},
                               {"attributes", json_of(devices.backend_attributes(type))},
                               {"problem", problem.empty() ? Json(nullptr) : Json(problem)},
                               {"devices", Json::array()},
                               {"hidden", Json::array()}});
    for (const DeviceExplanation& each : devices.explain(type)) {
      if (each.logical) {
        Json device = device_json(devices, Device::of(type, *each.logical));
        device["explanation"] = each.sentence;
        entry["devices"].push_back(std::move(device));
      } else {
        entry["hidden"].push_back({{"chip", each.physical}, {"explanation", each.sentence}});
      }
    }
  }
  return list;
}

}  // namespace berth::tool
