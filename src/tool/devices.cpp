// SPDX-License-Identifier: Apache-2.0
#include "tool/devices.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "tool/backend_devices.hpp"
#include "tool/command.hpp"
#include "tool/device_facts.hpp"
#include "tool/json_text.hpp"
#include "tool/output.hpp"
#include "tool/peer_matrix.hpp"
#include "tool/printable.hpp"
#include "tool/session.hpp"
#include "tool/table.hpp"
#include "tool/wrapped.hpp"

namespace berth::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kUnderTitle = 10;  ///< start of the second column

struct DevicesOptions : CommonOptions {
  bool explain = false;
  std::string topology;  ///< "TYPE:NAME"; empty: none
};

/// Side by side, because a newer toolkit may require a newer driver.
std::string versions_text(const Runtime& runtime) {
  const auto version = [](int number) {
    return fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10);
  };
  const DriverInfo driver = runtime.driver();
  return fmt::format("versions: driver {}, built with the headers of {}",
                     driver.usable ? version(driver.version) : "none", version(toolkit_version()));
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json driver_json(const DriverInfo& driver) {
  return {{"name", driver.name},
          {"usable", driver.usable},
          {"problem", text_or_null(driver.problem)},
          {"version", driver.usable ? Json(driver.version) : Json(nullptr)}};
}

/// A Runtime with the devices of a topology instead of those of the plug-in.
std::unique_ptr<Runtime> make_runtime_of_topology(const DevicesOptions& options) {
  const auto colon = options.topology.find(':');
  const std::string type = options.topology.substr(0, colon);
  RuntimeOptions of_runtime = options_from_environment();
  const auto plugin = std::ranges::find(of_runtime.pjrt, type, &PjrtPlugin::type);
  if (colon == options.topology.npos || plugin == of_runtime.pjrt.end()) {
    throw UsageError(
        fmt::format("--topology: {} does not name a topology; accepted: TYPE:NAME such as "
                    "tpu:v5e:2x2x1, with a plug-in for TYPE in BERTH_CONF (pjrt=TYPE:PATH)",
                    quoted_argument(options.topology)));
  }
  std::unique_ptr<DeviceBackend> backend =
      open_pjrt_topology({type, plugin->path, plugin->options}, options.topology.substr(colon + 1));
  of_runtime.pjrt.erase(plugin);
  auto runtime = open_runtime(options, std::move(of_runtime));
  runtime->register_backend(type, std::move(backend));
  return runtime;
}

ExitCode list_devices(const DevicesOptions& options) {
  const auto runtime =
      options.topology.empty() ? open_runtime(options) : make_runtime_of_topology(options);
  const DeviceRegistry& devices = runtime->devices();
  // Devices that are all hidden are listed, with the reason.
  if (!options.driver.empty() && devices.physical_devices().empty()) require_driver(*runtime);
  if (options.json) {
    print(json_text({{"driver", driver_json(runtime->driver())},
                     {"toolkit_version", toolkit_version()},
                     {"visibility_problem", text_or_null(devices.visibility_problem())},
                     {"devices", devices_json(devices)},
                     {"backends", backend_devices_json(devices)}}));
    if (!runtime->driver().usable) print_warning("no devices: " + runtime->driver().problem);
    return ExitCode::ok;
  }
  print(driver_text(*runtime, options));
  print(wrapped(versions_text(*runtime), 0));
  const bool none = devices.physical_devices().empty();
  print(none ? "no devices\n" : fmt::format("\n{}", devices_text(devices, options.explain)));
  const std::string peers = peer_matrix(devices);
  if (!peers.empty()) print(fmt::format("\n{}", peers));
  const std::string others = backend_devices_text(devices, options.explain);
  if (!others.empty()) print(fmt::format("\n{}", others));
  return ExitCode::ok;
}

/// The devices, each followed by its instances, as explain() lists them.
std::vector<const DeviceInfo*> all_of(const DeviceRegistry& devices) {
  std::vector<const DeviceInfo*> all;
  for (const DeviceInfo& device : devices.physical_devices()) {
    all.push_back(&device);
    for (const DeviceInfo& instance : devices.mig_instances()) {
      if (instance.physical == device.physical) all.push_back(&instance);
    }
  }
  return all;
}

std::string reached_as(const DeviceInfo& info) {
  if (info.visible()) return fmt::format("cuda:{}", *info.logical);
  return info.mig_mode ? "split" : "hidden";
}

std::string physical_text(const DeviceInfo& info) {
  if (!info.mig_instance) return fmt::to_string(info.physical);
  const MigInstanceIds& ids = *info.mig_instance;
  const auto id = [](int number) { return number < 0 ? "?" : fmt::to_string(number); };
  return fmt::format("{}/{}/{}", info.physical, id(ids.gpu_instance), id(ids.compute_instance));
}

std::string known(const std::string& text) {
  return text.empty() ? "unknown" : text;
}

Json entry_of(const DeviceInfo& info, const DeviceExplanation& explanation) {
  Json entry;
  entry["physical"] = info.physical;
  entry["logical"] = info.visible() ? Json(*info.logical) : Json(nullptr);
  entry["visible"] = info.visible();
  entry["explanation"] = explanation.sentence;
  entry["uuid"] = text_or_null(info.uuid);
  entry["pci_bus_id"] = text_or_null(info.pci_bus_id);
  entry["name"] = text_or_null(info.name);
  entry["memory_bytes"] = info.memory_bytes == 0 ? Json(nullptr) : Json(info.memory_bytes);
  return entry;
}

Json id_or_null(int id) {
  return id < 0 ? Json(nullptr) : Json(id);
}

}  // namespace

std::string devices_text(const DeviceRegistry& devices, bool explain) {
  const Table table({{"device", 8}, {"physical", 8, true}, {"memory", 9, true}, {"name", 0}});
  const std::vector<DeviceExplanation> explanations = devices.explain();
  const std::vector<const DeviceInfo*> all = all_of(devices);
  std::string text = table.header();
  for (std::size_t index = 0; index < all.size(); ++index) {
    const DeviceInfo& info = *all[index];
    const std::string memory = info.memory_bytes == 0 ? "unknown" : format_bytes(info.memory_bytes);
    text += table.row({reached_as(info), physical_text(info), memory, known(info.name)});
    text += fmt::format("{:{}}{}  {}\n", "", kUnderTitle, known(info.pci_bus_id), known(info.uuid));
    if (info.visible()) {
      text += wrapped(facts_text(devices, info), kUnderTitle);
      text += wrapped(use_text(devices, info), kUnderTitle);
    }
    if (explain) text += wrapped(explanations[index].sentence, kUnderTitle);
  }
  return text;
}

Json devices_json(const DeviceRegistry& devices) {
  const std::vector<DeviceExplanation> explanations = devices.explain();
  const std::vector<const DeviceInfo*> all = all_of(devices);
  Json list = Json::array();
  for (std::size_t index = 0; index < all.size(); ++index) {
    const DeviceInfo& info = *all[index];
    Json entry = entry_of(info, explanations[index]);
    if (info.visible()) add_facts(entry, devices, info);
    if (info.mig_instance) {
      entry["gpu_instance"] = id_or_null(info.mig_instance->gpu_instance);
      entry["compute_instance"] = id_or_null(info.mig_instance->compute_instance);
      list.back()["instances"].push_back(std::move(entry));
      continue;
    }
    entry["mig_mode"] = info.mig_mode;
    entry["lost"] = info.lost;
    entry["instances"] = Json::array();
    list.push_back(std::move(entry));
  }
  return list;
}

void add_devices_command(CommandLine& berth) {
  const auto options = std::make_shared<DevicesOptions>();
  CommandOptions command = berth.add("devices", "List the devices, including hidden ones",
                                     [options] { return list_devices(*options); });
  add_common_options(command, *options);
  command.flag("--explain", options->explain, "Explain why each is visible or hidden");
  command.text("--topology", options->topology, "TYPE:NAME",
               "List the devices of a topology of the plug-in for TYPE,\n"
               "without hardware: tpu:v5e:2x2x1");
  command.footer(
      "Every physical device that the driver or NVML knows, with the name under which\n"
      "programs reach it: `cuda:N`, or `hidden` where CUDA_VISIBLE_DEVICES leaves it\n"
      "out. A device that MIG has split is followed by its instances, whose number is\n"
      "device/GPU instance/compute instance. Several visible devices are followed by\n"
      "the matrix of peer access. If no driver is found, the list is empty, and the\n"
      "driver line says why; a --driver that cannot be opened is an error.\n"
      "Devices of PJRT plug-ins (BERTH_CONF=pjrt=TYPE:PATH) follow, and TPU chips of\n"
      "the machine that they do not show: `hidden`. --topology passes the options of\n"
      "TYPE in BERTH_CONF to the topology.\n\n"
      "Examples:\n"
      "  berth devices\n"
      "  CUDA_VISIBLE_DEVICES=1 berth devices --explain\n"
      "  BERTH_SIM=devices=4 berth devices --driver sim --json\n"
      "  BERTH_CONF=pjrt=tpu:libtpu.so berth devices --topology tpu:v5e:2x2x1\n");
}

}  // namespace berth::tool
