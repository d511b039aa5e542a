// SPDX-License-Identifier: Apache-2.0
#include "fuzz/readers/targets.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "berth/bytes.hpp"
#include "berth/configuration.hpp"
#include "berth/device.hpp"
#include "berth/device_map.hpp"
#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "base/quoted.hpp"
#include "device/visible_devices.hpp"
#include "fuzz/readers/seeds.hpp"
#include "sim/config.hpp"
#include "sim/work/cubin.hpp"
#include "trace/trace_check.hpp"

namespace berth::fuzz {
namespace {

constexpr std::size_t kMessageBytesMax = 2000;

void require(bool truth, std::string_view promise, std::string_view text = {}) {
  if (truth) return;
  std::fprintf(stderr, "broken promise: %.*s: %.*s\n", static_cast<int>(promise.size()),
               promise.data(), static_cast<int>(text.size()), text.data());
  std::abort();
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

void require_printable(std::string_view message) {
  require(std::ranges::none_of(message, is_control), "a message is one line of text", message);
}

/// Calls `read`, which may refuse the input.
template <class Read>
void read_or_refuse(const Read& read, std::size_t message_bytes_max = kMessageBytesMax) {
  try {
    read();
  } catch (const InvalidArgument& refused) {
    const std::string_view message = refused.what();
    require_printable(message);
    require(message.size() <= message_bytes_max, "a message is short", message);
  }
}

void read_a_trace(std::string_view bytes) {
  read_or_refuse([&] {
    const Trace trace = parse_trace("x", bytes, {.host_bytes_max = 64_MiB});
    TraceChecker checker("event");
    std::size_t place = 0;
    for (const TraceEvent& event : trace.events) {
      const std::optional<std::string> problem = checker.add(event, place++);
      require(!problem, "a trace that was read can have happened", problem.value_or(""));
    }
  });
}

void read_a_configuration(std::string_view bytes) {
  // A message has a part for each entry that is wrong.
  const std::size_t message_bytes_max = kMessageBytesMax * (2 + std::ranges::count(bytes, ','));
  read_or_refuse(
      [&] {
        const RuntimeOptions options = configure({}, bytes);
        for (const ConfigurationEntry& entry : describe(options)) {
          if (entry.key == "driver") continue;  // a file's name may have any bytes
          const RuntimeOptions again = configure(options, entry.key + "=" + entry.value);
          require(std::ranges::any_of(describe(again),
                                      [&](const ConfigurationEntry& other) {
                                        return other.key == entry.key && other.value == entry.value;
                                      }),
                  "a described value is read as itself", entry.key);
        }
      },
      message_bytes_max);
  read_or_refuse(
      [&] {
        for (const std::string& remark : configure_like_pytorch({}, bytes).remarks)
          require_printable(remark);
      },
      message_bytes_max);
}

void read_device_text(std::string_view bytes) {
  read_or_refuse([&] {
    const Device device = Device::parse(bytes);
    require(Device::parse(device.to_string()) == device, "a device's text means it", bytes);
  });
  read_or_refuse([&] { static_cast<void>(DeviceMap::parse(bytes)); });
  read_or_refuse([&] { static_cast<void>(parse_bytes(bytes)); });
}

/// Four devices, the second and third of which MIG has split.
Machine make_machine() {
  Machine machine;
  for (int device = 0; device < 4; ++device) {
    MachineDevice& added = machine.devices.emplace_back();
    added.uuid = "GPU-aaaa" + std::to_string(1000 + device) + "-0000-0000-0000-000000000000";
    added.mig_mode = device == 1 || device == 2;
    for (unsigned instance = 0; added.mig_mode && instance < 2; ++instance) {
      added.instances.push_back({"MIG-cccc" + std::to_string(100 * device + int(instance)) +
                                     "-0000-0000-0000-000000000000",
                                 instance + 1, 0});
    }
  }
  return machine;
}

void read_visible_devices(std::string_view bytes) {
  static const Machine machine = make_machine();
  const std::string text(bytes.substr(0, bytes.find('\0')));  // a variable ends there
  const VisibleDevices visible = resolve_visible_devices(text, machine);
  require_printable(visible.problem);
  require(visible.problem.size() <= kMessageBytesMax, "a problem is short", visible.problem);
  for (const Place& place : visible.places) {
    require(place.device < machine.devices.size() &&
                place.instance.value_or(0) <
                    std::max<std::size_t>(machine.devices[place.device].instances.size(), 1),
            "a place exists", text);
  }
  for (const VisibleEntry& entry : visible.entries)
    for (const int ordinal : entry.ordinals)
      require(static_cast<std::size_t>(ordinal) < visible.places.size(), "an ordinal exists", text);
}

/// Images that are malformed are refused without an error.
void read_device_code(std::string_view bytes) {
  const auto image = std::as_bytes(std::span(bytes));
  for (const auto& variables : {sim::read_cubin(image), sim::read_fat_binary(image)}) {
    if (!variables) continue;
    std::size_t kept = 0;
    for (const sim::ImageVariable& variable : *variables) {
      require(variable.bytes != 0 && !variable.name.empty(), "a variable has a name and bytes",
              variable.name);
      require(variable.value.size() <= variable.bytes, "a value fits its variable", variable.name);
      kept += variable.name.size() + variable.value.size();
    }
    require(kept <= bytes.size(), "no more is read than there is", "device code");
  }
}

void read_simulator_settings(std::string_view bytes) {
  read_or_refuse([&] {
    const sim::Config config = sim::Config::parse(bytes);
    require(sim::Config::parse(config.to_text()) == config, "settings are read as written", bytes);
  });
}

}  // namespace

std::span<const ReaderTarget> reader_targets() {
  static const ReaderTarget targets[] = {
      {"traces", read_a_trace, trace_seeds, trace_words()},
      {"snapshots", read_a_trace, snapshot_seeds, snapshot_words()},
      {"configuration", read_a_configuration, configuration_seeds, configuration_words()},
      {"device_text", read_device_text, device_text_seeds, device_text_words()},
      {"visible_devices", read_visible_devices, visible_devices_seeds, visible_devices_words()},
      {"simulator_settings", read_simulator_settings, simulator_seeds, simulator_words()},
      {"device_code", read_device_code, device_code_seeds, device_code_words()},
  };
  return targets;
}

const ReaderTarget* find_reader_target(std::string_view name) {
  const auto found = std::ranges::find(reader_targets(), name, &ReaderTarget::name);
  return found == reader_targets().end() ? nullptr : &*found;
}

}  // namespace berth::fuzz
