// SPDX-License-Identifier: Apache-2.0
#include "sim/config_checks.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "sim/config.hpp"

namespace berth::sim {
namespace {

/// Devices and instances together; DeviceSet has a bit for each.
constexpr int kPlacesMax = 64;

void check_count(const Config& config, std::string_view key, std::size_t values) {
  if (values == 1 || values == static_cast<std::size_t>(config.devices)) return;
  throw InvalidArgument(
      format_text("simulator: {} names {} devices, but devices={}; accepted: one value for all, or "
                  "one a device",
                  key, values, config.devices));
}

void check_memory(const Config& config) {
  check_count(config, "memory", config.memory.size());
  for (const std::uint64_t memory : config.memory)
    if (memory < config.granularity)
      throw InvalidArgument(format_text("simulator: memory={} is less than one granule of {} B",
                                        memory, config.granularity));
}

void check_mig(const Config& config) {
  for (const auto& [slot, instances] : config.mig) {
    if (slot >= config.devices)
      throw InvalidArgument(
          format_text("simulator: mig names device {}, but devices={}", slot, config.devices));
    if (instances == 0) continue;
    const MigInstance instance = mig_instance(slot, 0, instances);
    if (mig_memory_bytes(instance, config.memory_of(slot), config.granularity) == 0)
      throw InvalidArgument(
          format_text("simulator: mig leaves less than one granule of {} B to each of {} instances "
                      "of device {}",
                      config.granularity, instances, slot));
  }
  const int places = config.places();
  if (places > kPlacesMax)
    throw InvalidArgument(
        format_text("simulator: {} devices and instances of MIG; accepted: at most {} together",
                    places, kPlacesMax));
}

void check_faults(const Config& config) {
  for (const FaultRule& rule : config.faults.rules())
    if (rule.fault.kind == Fault::Kind::lost &&
        rule.fault.amount >= static_cast<std::uint64_t>(config.places()))
      throw InvalidArgument(
          format_text("simulator: faults: lost:{} names no device; accepted: the slot of a device "
                      "or instance, 0 to {}",
                      rule.fault.amount, config.places() - 1));
}

}  // namespace

void check_settings(const Config& config) {
  check_memory(config);
  check_count(config, "numa", config.numa.size());
  check_count(config, "memory_operations", config.memory_operations.size());
  check_mig(config);
  check_faults(config);
}

}  // namespace berth::sim
