// SPDX-License-Identifier: Apache-2.0
#include "berth/device_pick.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "berth/device_registry.hpp"
#include "berth/error.hpp"
#include "berth/local_rank.hpp"

#include "base/check_choice.hpp"
#include "base/format.hpp"
#include "base/text_list.hpp"
#include "device/local_rank_variables.hpp"

namespace berth {
namespace {

/// A visible device that may be picked.
struct Candidate {
  Device device;
  std::uint64_t bytes_total;
  std::uint64_t bytes_used;
  std::uint64_t bytes_of_others;
};

bool is_other(const ProcessMemory& process) {
  return process.pid != static_cast<unsigned>(getpid());
}

std::uint64_t bytes_of_others(const DeviceMemoryUse& use) {
  const std::uint64_t used = use.bytes_used.value_or(0);
  std::uint64_t own = 0;
  for (const ProcessMemory& process : use.processes.value_or(std::vector<ProcessMemory>())) {
    if (!is_other(process)) own += process.bytes.value_or(0);
  }
  return used - std::min(used, own);
}

/// Why no process can use the device; empty if no reason is known.
std::string find_fault(const DeviceRegistry& devices, Device device) {
  const auto physical = static_cast<std::size_t>(devices.info(device).physical);
  if (devices.physical_devices()[physical].lost) return "NVML reports it as lost";
  if (devices.facts(device).compute_mode == ComputeMode::prohibited)
    return "its compute mode is prohibited";
  return {};
}

/// The reason why another process has exclusive use of the device; empty if none has.
std::string find_owner(const DeviceRegistry& devices, Device device, const DeviceMemoryUse& use) {
  if (devices.facts(device).compute_mode != ComputeMode::exclusive_process) return {};
  if (!use.processes || std::ranges::none_of(*use.processes, is_other)) return {};
  return "its compute mode is exclusive_process, and another process uses it";
}

/// The candidates. `faults` receives the reasons for the other devices.
std::vector<Candidate> find_candidates(const DeviceRegistry& devices,
                                       std::vector<std::string>& faults) {
  std::vector<Candidate> candidates;
  const bool is_alone = devices.count() == 1;
  for (int ordinal = 0; ordinal < devices.count(); ++ordinal) {
    const Device device = Device::cuda(ordinal);
    const DeviceMemoryUse use = devices.memory_use(device);
    std::string fault = find_fault(devices, device);
    if (fault.empty()) fault = find_owner(devices, device, use);
    if (fault.empty() && !is_alone && !(use.bytes_total && use.bytes_used))
      fault = "NVML does not report its memory";
    if (!fault.empty()) {
      faults.push_back(device.to_string() + ": " + fault);
      continue;
    }
    candidates.push_back(
        {device, use.bytes_total.value_or(0), use.bytes_used.value_or(0), bytes_of_others(use)});
  }
  return candidates;
}

int used_percent(const DeviceRegistry& devices, const Candidate& candidate) {
  const double share = candidate.bytes_total == 0 ? 0
                                                  : static_cast<double>(candidate.bytes_of_others) /
                                                        static_cast<double>(candidate.bytes_total);
  return std::max(devices.utilization_percent(candidate.device).value_or(0),
                  static_cast<int>(share * 100));
}

/// The first device with the lowest `score`.
template <class Score>
Device pick_least(const DeviceRegistry& devices, const Score& score) {
  static_cast<void>(devices.resolve(Device::cuda(0)));  // throws if there is none
  if (devices.count() > 1 && !devices.nvml_problem().empty()) {
    throw NotSupported(format_text(
        "no device can be picked by its use or its free memory: NVML does not work ({}), and the "
        "driver reports free memory only to a process with a context on the device; accepted "
        "without NVML: the local rank, a UUID, or an ordinal",
        devices.nvml_problem()));
  }
  std::vector<std::string> faults;
  const std::vector<Candidate> candidates = find_candidates(devices, faults);
  if (candidates.empty()) {
    throw NotSupported(format_text("no device can be picked: {}", join_texts(faults, "; ")));
  }
  if (candidates.size() == 1) return candidates.front().device;
  std::vector<decltype(score(candidates.front()))> scores;  // once each: they change
  for (const Candidate& candidate : candidates) scores.push_back(score(candidate));
  const auto least = std::ranges::min_element(scores) - scores.begin();
  return candidates[static_cast<std::size_t>(least)].device;
}

Device pick_by_local_rank(const DeviceRegistry& devices) {
  const std::optional<LocalRank> local = local_rank();
  if (!local) {
    throw InvalidArgument(format_text(
        "no device can be picked by local rank: no launcher has set it; accepted: one of "
        "{} in the environment",
        join_texts(kLocalRankVariables, ", ")));
  }
  const bool one_is_left =
      devices.count() == 1 && devices.visible_devices() && devices.visibility_problem().empty();
  try {
    const Device device = devices.resolve(Device::cuda(one_is_left ? 0 : local->rank));
    const std::string fault = find_fault(devices, device);
    if (!fault.empty()) throw NotSupported(device.to_string() + " cannot be used: " + fault);
    return device;
  } catch (const Error& error) {
    const std::string message =
        format_text("local rank {} by {}: {}", local->rank, local->variable, error.what());
    Error(error.code(), message, error.driver_code()).raise();
  }
}

}  // namespace

Device pick_device(const DeviceRegistry& devices, DevicePreference preference) {
  check_choice("DevicePreference", preference, {"least_used", "most_free_memory", "local_rank"});
  switch (preference) {
    case DevicePreference::least_used:
      return pick_least(devices, [&](const Candidate& candidate) {
        return std::tuple(used_percent(devices, candidate), candidate.bytes_of_others);
      });
    case DevicePreference::most_free_memory:
      return pick_least(devices, [](const Candidate& candidate) {
        const std::uint64_t free =
            candidate.bytes_total - std::min(candidate.bytes_total, candidate.bytes_used);
        return ~free;  // the lowest for the most free memory
      });
    case DevicePreference::local_rank:
      break;
  }
  return pick_by_local_rank(devices);
}

}  // namespace berth
