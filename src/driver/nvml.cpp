// SPDX-License-Identifier: Apache-2.0
#include "driver/nvml.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"

namespace berth {

Nvml::Nvml(DriverSource source) : source_(std::move(source)) {
  if (!source_.resolve) {
    problem_ = source_.problem.empty() ? "no NVML" : source_.problem;
    return;
  }
  constexpr bool required = true;
  constexpr bool optional = false;
#define BERTH_LOAD(member, symbol, type, need)                                \
  table_.member = reinterpret_cast<nvml::type*>(source_.resolve(#symbol, 0)); \
  if (need && table_.member == nullptr && problem_.empty()) problem_ = "NVML lacks " #symbol;
  BERTH_NVML_FUNCTIONS(BERTH_LOAD)
#undef BERTH_LOAD
  if (!problem_.empty()) return;
  const nvml::Return result = table_.init();
  if (result != nvml::kSuccess) problem_ = format_text("nvmlInit failed with code {}", result);
}

Nvml::~Nvml() {
  if (usable() && origin_.is_here()) table_.shutdown();
}

template <class Function>
std::string Nvml::text(Function* function, nvml::Device device) {
  char said[nvml::kTextBytes] = {};
  if (function(device, said, sizeof said) != nvml::kSuccess) return {};
  return said;
}

template <class Value, class Function, class... Args>
std::optional<Value> Nvml::ask(Function* function, Args... args) {
  Value value{};
  if (function == nullptr || function(args..., &value) != nvml::kSuccess) return std::nullopt;
  return value;
}

std::vector<KnownDevice> Nvml::devices() const {
  std::vector<KnownDevice> devices;
  if (!usable() || !origin_.is_here()) return devices;
  const unsigned count = ask<unsigned>(table_.device_get_count).value_or(0);
  for (unsigned index = 0; index < count; ++index) {
    const auto handle = ask<nvml::Device>(table_.device_get_handle_by_index, index);
    if (!handle) continue;
    KnownDevice device = describe(*handle);
    if (!device.uuid.empty() || !device.pci_bus_id.empty()) devices.push_back(std::move(device));
  }
  return devices;
}

KnownDevice Nvml::describe(nvml::Device device) const {
  KnownDevice known;
  known.uuid = text(table_.device_get_uuid, device);
  known.name = text(table_.device_get_name, device);
  const auto pci = ask<nvml::PciInfo>(table_.device_get_pci_info, device);
  if (pci) known.pci_bus_id = pci->busId;
  nvml::Memory memory{};
  const nvml::Return result = table_.device_get_memory_info(device, &memory);
  known.lost = result == nvml::kGpuIsLost;
  if (result == nvml::kSuccess) known.memory_bytes = memory.total;

  unsigned current = 0;
  unsigned pending = 0;  // after the next reset
  if (table_.device_get_mig_mode != nullptr) {
    const nvml::Return mode = table_.device_get_mig_mode(device, &current, &pending);
    if (mode == nvml::kSuccess) known.mig_mode = current != 0;
    if (mode == nvml::kNotSupported) known.mig_mode = false;
  }
  if (known.mig_mode.value_or(false)) known.instances = instances_of(device);
  return known;
}

std::vector<KnownInstance> Nvml::instances_of(nvml::Device device) const {
  std::vector<KnownInstance> instances;
  const unsigned most = ask<unsigned>(table_.device_get_max_mig_count, device).value_or(0);
  for (unsigned index = 0; index < most; ++index) {
    // Indices have gaps if instances were removed.
    const auto handle = ask<nvml::Device>(table_.device_get_mig_handle, device, index);
    if (!handle) continue;
    KnownInstance instance;
    instance.uuid = text(table_.device_get_uuid, *handle);
    instance.name = text(table_.device_get_name, *handle);
    if (const auto memory = ask<nvml::Memory>(table_.device_get_memory_info, *handle)) {
      instance.memory_bytes = memory->total;
    }
    instance.gpu_instance = ask<unsigned>(table_.device_get_gpu_instance_id, *handle);
    instance.compute_instance = ask<unsigned>(table_.device_get_compute_instance_id, *handle);
    instances.push_back(std::move(instance));
  }
  return instances;
}

std::optional<nvml::Device> Nvml::find(const std::string& uuid) const {
  if (!usable() || !origin_.is_here() || uuid.empty()) return std::nullopt;
  return ask<nvml::Device>(table_.device_get_handle_by_uuid, uuid.c_str());
}

std::optional<nvml::Memory> Nvml::memory(const std::string& uuid) const {
  const auto device = find(uuid);
  if (!device) return std::nullopt;
  return ask<nvml::Memory>(table_.device_get_memory_info, *device);
}

std::optional<std::vector<nvml::ProcessInfo>> Nvml::list(nvml::DeviceGetProcessesFn* function,
                                                         nvml::Device device) {
  if (function == nullptr) return std::nullopt;
  std::vector<nvml::ProcessInfo> processes;
  // Other processes start and end, so there may be more of them than a moment ago.
  constexpr int attempts = 8;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    auto count = static_cast<unsigned>(processes.size());
    const nvml::Return result = function(device, &count, processes.data());
    if (result != nvml::kSuccess && result != nvml::kInsufficientSize) return std::nullopt;
    if (result == nvml::kSuccess && count <= processes.size()) {
      processes.resize(count);
      return processes;
    }
    processes.resize(count + 4);
  }
  return std::nullopt;
}

std::optional<std::vector<Nvml::Process>> Nvml::processes(const std::string& uuid) const {
  const auto device = find(uuid);
  if (!device) return std::nullopt;
  const auto compute = list(table_.device_get_compute_processes, *device);
  if (!compute) return std::nullopt;
  std::vector<nvml::ProcessInfo> all = *compute;
  if (const auto graphics = list(table_.device_get_graphics_processes, *device)) {
    all.insert(all.end(), graphics->begin(), graphics->end());
  }
  // A process with both kinds of work is in both lists with all its memory. A process that uses
  // several instances is in one list several times, with the memory of each.
  const auto same = [](const nvml::ProcessInfo& a, const nvml::ProcessInfo& b) {
    return a.pid == b.pid && a.gpuInstanceId == b.gpuInstanceId &&
           a.computeInstanceId == b.computeInstanceId;
  };
  std::vector<Process> processes;
  for (auto info = all.begin(); info != all.end(); ++info) {
    if (std::any_of(all.begin(), info, [&](const auto& before) { return same(before, *info); })) {
      continue;
    }
    const bool known = info->usedGpuMemory != nvml::kUnknownBytes;
    const std::optional<std::uint64_t> bytes =
        known ? std::optional<std::uint64_t>(info->usedGpuMemory) : std::nullopt;
    const auto listed =
        std::find_if(processes.begin(), processes.end(),
                     [&](const Process& process) { return process.pid == info->pid; });
    if (listed == processes.end()) {
      processes.push_back({info->pid, bytes});
    } else {
      listed->bytes =
          listed->bytes && bytes ? std::optional(*listed->bytes + *bytes) : std::nullopt;
    }
  }
  return processes;
}

std::optional<nvml::Utilization> Nvml::utilization(const std::string& uuid) const {
  const auto device = find(uuid);
  if (!device) return std::nullopt;
  return ask<nvml::Utilization>(table_.device_get_utilization, *device);
}

std::optional<bool> Nvml::has_nvlink(const std::string& from, const std::string& to) const {
  const auto source = find(from);
  const auto target = find(to);
  if (!source || !target) return std::nullopt;
  const auto status =
      ask<nvml::P2pStatus>(table_.device_get_p2p_status, *source, *target, nvml::kP2pNvlink);
  if (!status) return std::nullopt;
  return *status == nvml::kP2pOk;
}

std::optional<nvml::TopologyLevel> Nvml::topology(const std::string& one,
                                                  const std::string& other) const {
  const auto first = find(one);
  const auto second = find(other);
  if (!first || !second) return std::nullopt;
  return ask<nvml::TopologyLevel>(table_.device_get_topology, *first, *second);
}

}  // namespace berth
