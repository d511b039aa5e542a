// SPDX-License-Identifier: Apache-2.0
// Devices that MIG has split into instances. All instances of a device are equal: a GPU instance
// with one compute instance. Source: NVIDIA Multi-Instance GPU User Guide.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace berth::sim {

/// The maximum number of instances of a device.
inline constexpr int kMigInstancesMax = 7;

/// The number of instances of each device, by slot. A missing device is not in MIG mode; a device
/// with 0 is, and cannot be used.
using MigDevices = std::map<int, int>;

struct MigInstance {
  int parent;  ///< slot of its device
  int index;   ///< among the instances of its device
  int compute_slices;
  int memory_slices;

  /// The ids of NVML; unique within the device, and within the GPU instance.
  [[nodiscard]] unsigned gpu_instance_id() const { return static_cast<unsigned>(index) + 1; }
  [[nodiscard]] unsigned compute_instance_id() const { return 0; }
  /// The fraction of a device with 132.
  [[nodiscard]] int multiprocessors() const;
};

/// The largest instance of which `count` (1 to 7) fit on a device.
MigInstance mig_instance(int parent, int index, int count);

/// "off", or slot:instances for each device in MIG mode, as in "0:2/3:7"; nullopt for other text.
std::optional<MigDevices> parse_mig(std::string_view text);
/// The inverse of parse_mig().
std::string mig_text(const MigDevices& mig);

/// The part of the device's `bytes` that the instance has.
std::uint64_t mig_memory_bytes(const MigInstance& instance, std::uint64_t bytes,
                               std::uint64_t granularity);

}  // namespace berth::sim
