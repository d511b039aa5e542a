// SPDX-License-Identifier: Apache-2.0
#include "pjrt/description.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "pjrt/extensions.hpp"
#include "pjrt/given.hpp"
#include "pjrt/named_value.hpp"

namespace berth::pjrt {
namespace {

/// The attribute by which TPUs report their memory.
constexpr std::string_view kMemoryLimit = "device_memory_bytes_limit";

std::string text(const Api& api, const Function<DescriptionTextArgs>& function,
                 Description* description) {
  DescriptionTextArgs args{};
  args.description = description;
  api.call(function, args);
  return on_one_line(require_text(api, function.name, args.text, args.text_bytes));
}

std::int64_t number(const Api& api, const Function<DescriptionNumberArgs>& function,
                    Description* description) {
  DescriptionNumberArgs args{};
  args.description = description;
  api.call(function, args);
  return args.number;
}

}  // namespace

void add_attributes(const Api& api, const char* function, DeviceDescription& described,
                    const NamedValue* first, std::size_t count) {
  for (const NamedValue& value : read_named_values(api, function, first, count)) {
    std::optional<DeviceAttribute> attribute = to_attribute(api, function, value);
    if (!attribute ||
        std::ranges::count(described.attributes, attribute->name, &DeviceAttribute::name) > 0) {
      continue;
    }
    const auto* const limit = std::get_if<std::int64_t>(&attribute->value);
    if (attribute->name == kMemoryLimit && limit != nullptr && *limit > 0)
      described.memory_bytes = static_cast<std::uint64_t>(*limit);
    described.attributes.push_back(*std::move(attribute));
  }
}

std::vector<DeviceAttribute> attributes_of(const Api& api) {
  std::vector<DeviceAttribute> attributes = {
      {"pjrt_api_version", format_text("{}.{}", kMajor, api.minor_version())}};
  ExtensionNames extensions = read_extensions(api.extensions());
  if (!extensions.names.empty())
    attributes.push_back({"pjrt_extensions", std::move(extensions.names)});
  if (!extensions.problem.empty())
    attributes.push_back({"pjrt_extensions_error", std::move(extensions.problem)});
  return attributes;
}

DeviceDescription describe(const Api& api, Description* description) {
  DeviceDescription described;
  described.name = text(api, description_name, description);
  described.kind = text(api, description_kind, description);
  described.attributes = {{"id", number(api, description_id, description)},
                          {"process_index", number(api, description_process, description)}};
  DescriptionAttributesArgs args{};
  args.description = description;
  api.call(description_attributes, args);
  add_attributes(api, description_attributes.name, described, args.attributes,
                 args.attribute_count);
  return described;
}

std::string name_of(const Api& api, std::string_view platform, std::string_view version) {
  const std::string_view line = version.substr(0, version.find('\n'));
  return on_one_line(format_text("PJRT {}{}{}, API {}.{}", platform, line.empty() ? "" : " ", line,
                                 kMajor, api.minor_version()));
}

}  // namespace berth::pjrt
