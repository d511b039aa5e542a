// SPDX-License-Identifier: Apache-2.0
#include "tool/devices.hpp"

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "tool/command.hpp"
#include "tool/json_text.hpp"
#include "tool/output.hpp"
#include "tool/session.hpp"
#include "tool/table.hpp"

namespace berth::tool {
namespace {

ExitCode list_devices(const CommonOptions& options) {
  const auto runtime = make_runtime(options);
  const auto& devices = runtime->devices().physical_devices();
  if (options.json) {
    print(json_text(devices_json(devices)));
    if (!runtime->driver().usable) print_warning("no devices: " + runtime->driver().problem);
    return ExitCode::ok;
  }
  print(describe_driver(*runtime, options) + "\n");
  print(devices.empty() ? "no devices\n" : "\n" + devices_text(devices));
  return ExitCode::ok;
}

}  // namespace

std::string devices_text(const std::vector<DeviceInfo>& devices) {
  const Table table({{"device", 8}, {"physical", 8, true}, {"memory", 9, true}, {"name", 0}});
  std::string text = table.header();
  for (const DeviceInfo& device : devices) {
    text += table.row({device.visible() ? fmt::format("cuda:{}", *device.logical) : "hidden",
                       fmt::to_string(device.physical), format_bytes(device.memory_bytes),
                       device.name});
    text += fmt::format("{:8}  {}  {}\n", "", device.pci_bus_id, device.uuid);
  }
  return text;
}

nlohmann::ordered_json devices_json(const std::vector<DeviceInfo>& devices) {
  auto list = nlohmann::ordered_json::array();
  for (const DeviceInfo& device : devices) {
    nlohmann::ordered_json entry;
    entry["physical"] = device.physical;
    entry["logical"] = nullptr;
    if (device.visible()) entry["logical"] = *device.logical;
    entry["visible"] = device.visible();
    entry["uuid"] = device.uuid;
    entry["pci_bus_id"] = device.pci_bus_id;
    entry["name"] = device.name;
    entry["memory_bytes"] = device.memory_bytes;
    list.push_back(std::move(entry));
  }
  return list;
}

Command add_devices_command(CLI::App& berth) {
  const auto options = std::make_shared<CommonOptions>();
  CLI::App* command = berth.add_subcommand("devices", "Which devices there are, hidden ones too");
  add_common_options(*command, *options);
  command->footer(
      "Every physical device that the driver or NVML knows, with the name under which\n"
      "programs reach it: `cuda:N`, or `hidden` where CUDA_VISIBLE_DEVICES leaves it\n"
      "out. No driver is no failure: the list is empty then, and the driver line says\n"
      "why.\n\n"
      "Examples:\n"
      "  berth devices\n"
      "  CUDA_VISIBLE_DEVICES=1 berth devices --json\n"
      "  BERTH_SIM=devices=4 berth devices --driver sim\n\n" +
      std::string(kExitCodeHelp));
  return {command, [options] { return list_devices(*options); }};
}

}  // namespace berth::tool
