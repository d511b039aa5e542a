// SPDX-License-Identifier: Apache-2.0
// A PJRT plug-in for tests. It is built in several variants:
//
//   PLUGIN_MAJOR, PLUGIN_MINOR  the version of the API
//   PLUGIN_SLOTS                slots of the table; those behind do not exist
//   PLUGIN_LONGER_CREATE        bytes by which PJRT_Client_Create_Args is longer than berth knows
//
// As plug-ins of OpenXLA do, every function refuses arguments that are shorter than it knows.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "berth/export.h"

#include "pjrt/plugin/buffer_calls.hpp"

namespace berth::pjrt {
namespace {

constexpr std::size_t kSlots = 118;

void describe(Description& description, int id, float scale) {
  description.id = id;
  description.name = "TestDevice(id=" + std::to_string(id) + ")";
  description.coordinates = {id, 0, 0};
  const auto value = [](std::string_view name, ValueType type, std::size_t count) {
    NamedValue named{};
    named.struct_size = sizeof named;
    named.name = name.data();
    named.name_bytes = name.size();
    named.type = type;
    named.value_count = count;
    return named;
  };
  NamedValue coordinates = value("coords", ValueType::int64_list, 3);
  coordinates.int64_list = description.coordinates.data();
  NamedValue cores = value("num_cores", ValueType::int64, 1);
  cores.int64 = 2;
  NamedValue scaled = value("scale", ValueType::float32, 1);
  scaled.float32 = scale;
  NamedValue flag = value("is_test", ValueType::boolean, 1);
  flag.boolean = true;
  NamedValue text = value("vendor", ValueType::string, 5);
  text.string = "berth, and more";
  NamedValue unknown = value("unknown", static_cast<ValueType>(99), 1);
  description.attributes = {coordinates, cores, scaled, flag, text, unknown};
}

Knobs read_knobs(const ClientCreateArgs& args) {
  Knobs knobs;
  for (std::size_t i = 0; i < args.option_count; ++i) {
    const NamedValue& option = args.options[i];
    const std::string_view name(option.name, option.name_bytes);
    const auto text = [&] { return std::string(option.string, option.value_count); };
    if (name == "devices") knobs.devices = option.int64;
    if (name == "memory_bytes") knobs.memory_bytes = option.int64;
    if (name == "memory_stats") knobs.memory_stats = option.boolean;
    if (name == "late") knobs.late = option.boolean;
    if (name == "no_raw_reads") knobs.no_raw_reads = option.boolean;
    if (name == "no_parts") knobs.no_parts = option.boolean;
    if (name == "throws") knobs.throws = option.boolean;
    if (name == "holds_source") knobs.holds_source = option.boolean;
    if (name == "gives_nothing") knobs.gives_nothing = text();
    if (name == "scale") knobs.scale = option.float32;
    if (name == "fail") knobs.fail = text();
    if (name == "fail_event") knobs.fail_event = text();
    if (name == "fail_code") knobs.fail_code = option.int64;
  }
  return knobs;
}

void error_destroy(ErrorDestroyArgs* args) {
  delete args->error;
}

void error_message(ErrorMessageArgs* args) {
  args->message = args->error->message.data();
  args->message_bytes = args->error->message.size();
}

Error* error_code(ErrorCodeArgs* args) {
  args->code = args->error->code;
  return nullptr;
}

Error* call(const Function<PluginInitializeArgs>& function, PluginInitializeArgs& args) {
  return check_size(function, args);
}

Error* call(const Function<EventArgs>& function, EventArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  if (function.slot == event_destroy.slot) {
    delete args.event;
    return nullptr;
  }
  args.event->completion->wait();
  return args.event->completion->error();
}

Error* call(const Function<EventIsReadyArgs>& function, EventIsReadyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.is_ready = args.event->completion->is_ended();
  return nullptr;
}

Error* call(const Function<EventOnReadyArgs>& function, EventOnReadyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  if (args.event->refuses_callbacks) return new_error(Code::internal, "no callbacks");
  args.event->completion->when_over(
      [callback = args.callback, user = args.user](const Completion& completion) {
        callback(completion.error(), user);
      });
  return nullptr;
}

Error* call(const Function<ClientCreateArgs>& function, ClientCreateArgs& args) {
  RETURN_IF_ERROR(check_size(function, args, PLUGIN_LONGER_CREATE));
  auto client = std::make_unique<Client>(read_knobs(args));
  RETURN_IF_ERROR(told_error(*client, function));
  if (client->knobs.throws) throw std::runtime_error("an exception of the plug-in");
  args.client = gives_nothing(*client, function) ? nullptr : client.release();
  return nullptr;
}

Error* call(const Function<ClientDestroyArgs>& function, ClientDestroyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  delete args.client;
  return nullptr;
}

Error* call(const Function<ClientTextArgs>& function, ClientTextArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const std::string_view text =
      function.slot == client_platform_name.slot ? "test" : "7.1\nbuilt for tests";
  args.text = text.data();
  args.text_bytes = text.size();
  return nullptr;
}

Error* call(const Function<ClientDevicesArgs>& function, ClientDevicesArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.client, function));
  args.devices = args.client->devices.data();
  args.device_count = args.client->devices.size();
  return nullptr;
}

Error* call(const Function<DescriptionNumberArgs>& function, DescriptionNumberArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.number = function.slot == description_id.slot ? args.description->id : 0;
  return nullptr;
}

Error* call(const Function<DescriptionAttributesArgs>& function, DescriptionAttributesArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.attributes = args.description->attributes.data();
  args.attribute_count = args.description->attributes.size();
  return nullptr;
}

Error* call(const Function<DescriptionTextArgs>& function, DescriptionTextArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const std::string& text =
      function.slot == description_kind.slot ? args.description->kind : args.description->name;
  args.text = text.data();
  args.text_bytes = text.size();
  return nullptr;
}

Error* call(const Function<DeviceDescriptionArgs>& function, DeviceDescriptionArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.description = &args.device->description;
  return nullptr;
}

Error* call(const Function<DeviceNumberArgs>& function, DeviceNumberArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.number = args.device->description.id + 100;
  return nullptr;
}

Error* call(const Function<DeviceMemoryArgs>& function, DeviceMemoryArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.memory = &args.device->memory;
  return nullptr;
}

Error* call(const Function<MemoryStatsArgs>& function, MemoryStatsArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.device->client, function));
  if (!args.device->client->knobs.memory_stats)
    return new_error(Code::unimplemented, "no statistics");
  args.bytes_in_use = args.device->bytes_in_use;
  args.bytes_limit = {args.device->client->knobs.memory_bytes, true};
  args.allocations = {42, false};
  return nullptr;
}

Error* call(const Function<TopologyCreateArgs>& function, TopologyCreateArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  const std::string name(args.name, args.name_bytes);
  if (!name.starts_with("test:") || name.size() != 6)
    return new_error(Code::invalid_argument, "no topology " + name);
  auto topology = std::make_unique<Topology>();
  for (int id = 0; id < name[5] - '0'; ++id) {
    topology->owned.push_back(std::make_unique<Description>());
    describe(*topology->owned.back(), id, 1);
    topology->descriptions.push_back(topology->owned.back().get());
  }
  args.topology = topology.release();
  return nullptr;
}

Error* call(const Function<TopologyDestroyArgs>& function, TopologyDestroyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  delete args.topology;
  return nullptr;
}

Error* call(const Function<TopologyTextArgs>& function, TopologyTextArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.text = "test";
  args.text_bytes = 4;
  return nullptr;
}

Error* call(const Function<TopologyDescriptionsArgs>& function, TopologyDescriptionsArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.descriptions = args.topology->descriptions.data();
  args.description_count = args.topology->descriptions.size();
  return nullptr;
}

Error* call(const Function<TopologyAttributesArgs>& function, TopologyAttributesArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.attributes = nullptr;
  args.attribute_count = 0;
  return nullptr;
}

/// Calls by slot since the plug-in was loaded.
std::atomic<int> calls[kSlots];

/// The entry of a slot.
template <const auto& kFunction>
Error* entry(typename std::remove_cvref_t<decltype(kFunction)>::Args* args) {
  ++calls[kFunction.slot];
  return call(kFunction, *args);
}

struct WholeTable {
  Table table;
  const void* slots[kSlots];
};

WholeTable make_table() {
  WholeTable whole{};
  whole.table.struct_size = slot_offset(PLUGIN_SLOTS);
  whole.table.version = {sizeof(Version), nullptr, PLUGIN_MAJOR, PLUGIN_MINOR};
  whole.slots[kErrorDestroySlot] = reinterpret_cast<const void*>(&error_destroy);
  whole.slots[kErrorMessageSlot] = reinterpret_cast<const void*>(&error_message);
  whole.slots[kErrorCodeSlot] = reinterpret_cast<const void*>(&error_code);
#define SET_SLOT(member, slot, symbol, Args, last) \
  whole.slots[slot] = reinterpret_cast<const void*>(&entry<member>);
  BERTH_PJRT_FUNCTIONS(SET_SLOT)
#undef SET_SLOT
  return whole;
}

}  // namespace

Client::Client(Knobs knobs_) : knobs(std::move(knobs_)), queue(knobs.late) {
  for (int id = 0; id < knobs.devices; ++id) {
    owned.push_back(std::make_unique<Device>());
    owned.back()->client = this;
    describe(owned.back()->description, id, knobs.scale);
    devices.push_back(owned.back().get());
  }
}

}  // namespace berth::pjrt

extern "C" BERTH_API const berth::pjrt::Table* GetPjrtApi() {
  static const berth::pjrt::WholeTable whole = berth::pjrt::make_table();
  return &whole.table;
}

/// Number of live objects of all kinds.
extern "C" BERTH_API int berth_test_pjrt_live() {
  return berth::pjrt::live.sum();
}

/// Ends the use of all sources that clients hold.
extern "C" BERTH_API void berth_test_pjrt_release_sources() {
  berth::pjrt::held_sources.release();
}

/// Number of calls of the function "PJRT_" + `name`; of all functions for null.
extern "C" BERTH_API int berth_test_pjrt_calls(const char* name) {
  using namespace berth::pjrt;
  int sum = 0;
#define ADD_CALLS(member, slot, symbol, Args, last) \
  if (name == nullptr || std::string_view(name) == #symbol) sum += calls[slot];
  BERTH_PJRT_FUNCTIONS(ADD_CALLS)
#undef ADD_CALLS
  return sum;
}
