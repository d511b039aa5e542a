// SPDX-License-Identifier: Apache-2.0
#include "tool/device_facts.hpp"

#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "berth/bytes.hpp"

namespace berth::tool {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

const char* name_of(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::shared:
      return "shared";
    case ComputeMode::prohibited:
      return "prohibited";
    case ComputeMode::exclusive_process:
      return "exclusive_process";
  }
  return "";
}

const char* name_of(PeerLink link) {
  switch (link) {
    case PeerLink::same_device:
      return "same_device";
    case PeerLink::nvlink:
      return "nvlink";
    case PeerLink::pci_switch:
      return "pci_switch";
    case PeerLink::host_bridge:
      return "host_bridge";
    case PeerLink::numa_node:
      return "numa_node";
    case PeerLink::system:
      return "system";
  }
  return "";
}

template <class T>
Json name_or_null(const std::optional<T>& value) {
  return value ? Json(name_of(*value)) : Json(nullptr);
}

std::optional<std::string> compute_capability(const DeviceFacts& facts) {
  if (!facts.compute_capability_major || !facts.compute_capability_minor) return std::nullopt;
  return fmt::format("{}.{}", *facts.compute_capability_major, *facts.compute_capability_minor);
}

Json memory_use_json(const DeviceMemoryUse& use) {
  Json json;
  json["bytes_total"] = or_null(use.bytes_total);
  json["bytes_used"] = or_null(use.bytes_used);
  json["processes"] = nullptr;
  if (!use.processes) return json;
  json["processes"] = Json::array();
  for (const ProcessMemory& process : *use.processes) {
    json["processes"].push_back({{"pid", process.pid}, {"bytes", or_null(process.bytes)}});
  }
  return json;
}

}  // namespace

std::string facts_text(const DeviceRegistry& devices, const DeviceInfo& visible) {
  const DeviceFacts& facts = devices.facts(Device::cuda(visible.logical.value()));
  std::vector<std::string> parts;
  if (const auto capability = compute_capability(facts)) parts.push_back("compute " + *capability);
  if (facts.multiprocessors)
    parts.push_back(fmt::format("{} multiprocessors", *facts.multiprocessors));
  if (facts.copy_engines) parts.push_back(fmt::format("{} copy engines", *facts.copy_engines));
  if (facts.host_numa_node) parts.push_back(fmt::format("NUMA node {}", *facts.host_numa_node));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string use_text(const DeviceRegistry& devices, const DeviceInfo& visible) {
  const Device device = Device::cuda(visible.logical.value());
  const DeviceMemoryUse use = devices.memory_use(device);
  std::vector<std::string> parts;
  if (const auto mode = devices.facts(device).compute_mode)
    parts.push_back(fmt::format("compute mode {}", name_of(*mode)));
  if (use.bytes_used) parts.push_back(format_bytes(*use.bytes_used) + " in use");
  if (use.processes) {
    const auto own = static_cast<unsigned>(getpid());
    std::size_t others = 0;
    std::uint64_t bytes = 0;
    for (const ProcessMemory& process : *use.processes) {
      if (process.pid == own) continue;
      ++others;
      bytes += process.bytes.value_or(0);
    }
    parts.push_back(others == 0
                        ? "no other processes"
                        : fmt::format("{} other processes hold {}", others, format_bytes(bytes)));
  }
  if (const auto percent = devices.utilization_percent(device))
    parts.push_back(fmt::format("{} % busy", *percent));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void add_facts(Json& entry, const DeviceRegistry& devices, const DeviceInfo& visible) {
  const Device device = Device::cuda(visible.logical.value());
  const DeviceFacts& facts = devices.facts(device);
  Json& out = entry["facts"];
  out["compute_capability"] = or_null(compute_capability(facts));
  out["multiprocessors"] = or_null(facts.multiprocessors);
  out["copy_engines"] = or_null(facts.copy_engines);
  out["host_numa_node"] = or_null(facts.host_numa_node);
  out["compute_mode"] = name_or_null(facts.compute_mode);
  entry["utilization_percent"] = or_null(devices.utilization_percent(device));
  entry["memory_use"] = memory_use_json(devices.memory_use(device));
  Json& peers = entry["peers"] = Json::array();
  for (int other = 0; other < devices.count(); ++other) {
    if (other == device.ordinal()) continue;
    const PeerFacts& peer = devices.peer(device, Device::cuda(other));
    peers.push_back({{"logical", other},
                     {"access", or_null(peer.access)},
                     {"native_atomics", or_null(peer.native_atomics)},
                     {"performance_rank", or_null(peer.performance_rank)},
                     {"link", name_or_null(peer.link)}});
  }
}

}  // namespace berth::tool
