// SPDX-License-Identifier: Apache-2.0
#include "fuzz/setup.hpp"

#include <algorithm>
#include <optional>

#include "berth/error.hpp"

#include "base/check.hpp"

namespace berth::fuzz {
namespace {

constexpr int kDevicesMax = 3;
constexpr std::uint64_t kGranuleMax = 1_MiB;
constexpr std::uint64_t kMemoryMax = 4_MiB;

std::optional<sim::Config> parse_config(std::string_view text) {
  try {
    sim::Config config = sim::Config::parse(text);
    BERTH_CHECK(sim::Config::parse(config.to_text()) == config);
    return config;
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

std::optional<sim::FaultPlan> parse_faults(std::string_view text) {
  try {
    sim::FaultPlan plan = sim::FaultPlan::parse(text);
    BERTH_CHECK(plan.text() == text);
    return plan;
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

sim::Config from_switches(unsigned switches) {
  sim::Config config;
  config.progress = static_cast<sim::Progress>(switches & 3);
  config.checks = (switches & kWithoutChecks) == 0;
  config.devices = (switches & kTwoDevices) != 0 ? 2 : 1;
  config.peer = (switches & kWithoutPeerAccess) == 0;
  config.granularity = (switches & kLargeGranules) != 0 ? kGranuleMax : 64_KiB;
  config.kernels = sim::Kernels::skip;
  return config;
}

/// `config` within bounds; nullopt where they leave too little to an instance of MIG.
std::optional<sim::Config> bounded(sim::Config config) {
  config.devices = std::min(config.devices, kDevicesMax);
  config.granularity = std::min(config.granularity, kGranuleMax);
  config.memory = {std::clamp(config.memory.front(), config.granularity, kMemoryMax)};
  config.host_memory = std::min(config.host_memory, kMemoryMax);
  config.stall_ms = 1;
  if (config.log != "on") config.log = "off";  // no files by names that an input made up
  return parse_config(config.to_text());
}

}  // namespace

Setup read_setup(Input& input) {
  const unsigned switches = input.byte();
  const auto config = parse_config(input.line());
  const auto faults = parse_faults(input.line());
  const std::string visible(input.line());
  const sim::Config fallback = from_switches(switches);
  // An empty text is a configuration, too, but says nothing.
  const bool says_something = config && *config != sim::Config{};
  Setup setup{bounded(says_something ? *config : fallback).value_or(*bounded(fallback)), visible,
              (switches & kOnce) != 0, (switches & kLeaveAlive) != 0};
  if (faults && !faults->text().empty() && faults->text().find(',') == std::string::npos) {
    sim::Config with_faults = setup.config;
    with_faults.faults = *faults;
    // Refused if the plan loses a device that there is not.
    setup.config = parse_config(with_faults.to_text()).value_or(setup.config);
  }
  return setup;
}

}  // namespace berth::fuzz
