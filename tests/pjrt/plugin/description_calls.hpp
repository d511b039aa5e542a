// SPDX-License-Identifier: Apache-2.0
// The functions of the plug-in that describe clients, devices and topologies, and its lies about
// them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/plugin/common.hpp"

namespace berth::pjrt {

/// More than any list or text has.
inline constexpr std::size_t kHuge = std::size_t{1} << 40;

inline NamedValue named(std::string_view name, ValueType type, std::size_t count) {
  NamedValue value{};
  value.struct_size = sizeof value;
  value.name = name.data();
  value.name_bytes = name.size();
  value.type = type;
  value.value_count = count;
  return value;
}

inline void describe(Description& description, int id, const Knobs& knobs) {
  description.id = id;
  description.lie = knobs.lie;
  description.name = "TestDevice(id=" + std::to_string(id) + ")";
  description.coordinates = {id, 0, 0};
  NamedValue coordinates = named("coords", ValueType::int64_list, 3);
  coordinates.int64_list = description.coordinates.data();
  NamedValue cores = named("num_cores", ValueType::int64, 1);
  cores.int64 = 2;
  NamedValue scaled = named("scale", ValueType::float32, 1);
  scaled.float32 = knobs.scale;
  NamedValue flag = named("is_test", ValueType::boolean, 1);
  flag.boolean = true;
  NamedValue text = named("vendor", ValueType::string, 5);
  text.string = "berth, and more";
  const NamedValue unknown = named("unknown", static_cast<ValueType>(99), 1);
  std::vector<NamedValue> values = {coordinates, cores, scaled, flag, text, unknown};
  if (knobs.lie == "null attribute name") values[1].name = nullptr;
  if (knobs.lie == "null attribute text") values[4].string = nullptr;
  if (knobs.lie == "null attribute list") values[0].int64_list = nullptr;
  if (knobs.lie == "huge attribute list") values[0].value_count = kHuge;
  if (knobs.lie == "huge attribute name") values[1].name_bytes = kHuge;
  const auto bytes = static_cast<std::size_t>(knobs.attribute_bytes);
  description.attribute_count = values.size();
  // Elements that are longer than berth knows, or say another size than they have.
  const std::size_t stride = std::max(bytes, sizeof(NamedValue));
  description.attributes.resize(values.size() * stride);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].struct_size = bytes;
    std::memcpy(description.attributes.data() + i * stride, &values[i], sizeof(NamedValue));
  }
}

inline Error* call(const Function<ClientTextArgs>& function, ClientTextArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const bool is_name = function.slot == client_platform_name.slot;
  const std::string_view text = is_name ? "test" : "7.1\nbuilt for tests";
  args.text = text.data();
  args.text_bytes = !is_name && args.client->knobs.lie == "huge version" ? kHuge : text.size();
  return nullptr;
}

inline Error* call(const Function<ClientDevicesArgs>& function, ClientDevicesArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.client, function));
  Client& client = *args.client;
  if (client.knobs.lie == "null device") client.devices.back() = nullptr;
  args.devices = client.knobs.lie == "null devices" ? nullptr : client.devices.data();
  args.device_count = client.knobs.lie == "huge devices" ? kHuge : client.devices.size();
  return nullptr;
}

inline Error* call(const Function<DescriptionNumberArgs>& function, DescriptionNumberArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.number = function.slot == description_id.slot ? args.description->id : 0;
  return nullptr;
}

inline Error* call(const Function<DescriptionAttributesArgs>& function,
                   DescriptionAttributesArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const Description& description = *args.description;
  const bool is_null = description.lie == "null attributes";
  args.attributes =
      is_null ? nullptr : reinterpret_cast<const NamedValue*>(description.attributes.data());
  args.attribute_count = description.lie == "huge attributes" ? kHuge : description.attribute_count;
  return nullptr;
}

inline Error* call(const Function<DescriptionTextArgs>& function, DescriptionTextArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const std::string& text =
      function.slot == description_kind.slot ? args.description->kind : args.description->name;
  args.text = args.description->lie == "null device name" ? nullptr : text.data();
  args.text_bytes = text.size();
  return nullptr;
}

inline Error* call(const Function<DeviceDescriptionArgs>& function, DeviceDescriptionArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const bool is_null = args.device->description.lie == "null description";
  args.description = is_null ? nullptr : &args.device->description;
  return nullptr;
}

inline Error* call(const Function<DeviceNumberArgs>& function, DeviceNumberArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.number = args.device->description.id + 100;
  return nullptr;
}

inline Error* call(const Function<DeviceMemoryArgs>& function, DeviceMemoryArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.memory = args.device->description.lie == "null memory" ? nullptr : &args.device->memory;
  return nullptr;
}

inline Error* call(const Function<MemoryStatsArgs>& function, MemoryStatsArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.device->client, function));
  if (!args.device->client->knobs.memory_stats)
    return new_error(Code::unimplemented, "no statistics");
  if (args.device->client->knobs.lie == "negative memory") {
    args.bytes_in_use = -1;
    args.bytes_limit = {-5, true};
    return nullptr;
  }
  const auto known = args.device->client->machine->usage(args.device->description.id);
  args.bytes_in_use = known ? known->bytes_used : args.device->bytes_in_use->load();
  if (args.struct_size <= offsetof(MemoryStatsArgs, bytes_limit)) return nullptr;
  args.bytes_limit = {known ? known->bytes_limit : args.device->client->knobs.memory_bytes, true};
  args.allocations = {42, false};
  return nullptr;
}

inline Error* call(const Function<TopologyCreateArgs>& function, TopologyCreateArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const std::string name(args.name, args.name_bytes);
  if (!name.starts_with("test:") || name.size() != 6)
    return new_error(Code::invalid_argument, "no topology " + name);
  auto topology = std::make_unique<Topology>();
  for (int id = 0; id < name[5] - '0'; ++id) {
    topology->owned.push_back(std::make_unique<Description>());
    describe(*topology->owned.back(), id, {});
    topology->descriptions.push_back(topology->owned.back().get());
  }
  for (std::size_t i = 0; i < args.option_count; ++i) {
    const NamedValue& option = args.options[i];
    const std::string_view option_name(option.name, option.name_bytes);
    if (option_name == "null_description") topology->descriptions.back() = nullptr;
    if (option_name == "gives_nothing") return nullptr;
    if (option_name == "label") topology->label.assign(option.string, option.value_count);
  }
  args.topology = topology.release();
  return nullptr;
}

inline Error* call(const Function<TopologyDestroyArgs>& function, TopologyDestroyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  delete args.topology;
  return nullptr;
}

inline Error* call(const Function<TopologyTextArgs>& function, TopologyTextArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.text = args.topology->label.data();
  args.text_bytes = args.topology->label.size();
  return nullptr;
}

inline Error* call(const Function<TopologyDescriptionsArgs>& function,
                   TopologyDescriptionsArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.descriptions = args.topology->descriptions.data();
  args.description_count = args.topology->descriptions.size();
  return nullptr;
}

inline Error* call(const Function<TopologyAttributesArgs>& function, TopologyAttributesArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.attributes = nullptr;
  args.attribute_count = 0;
  return nullptr;
}

}  // namespace berth::pjrt
