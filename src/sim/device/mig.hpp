// SPDX-License-Identifier: Apache-2.0
// Devices that MIG has split into instances. All instances of a device are alike, each a GPU
// instance with one compute instance. Source: NVIDIA Multi-Instance GPU User Guide.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace berth::sim {

/// The most instances that a device has.
inline constexpr int kMigInstancesMax = 7;

/// How many instances each device has, by slot. A device that is not here is not in MIG mode; one
/// with 0 is, and cannot be used.
using MigDevices = std::map<int, int>;

struct MigInstance {
  int parent;  ///< slot of its device
  int index;   ///< among the instances of its device
  int compute_slices;
  int memory_slices;

  /// As NVML names them; unique for the device, and for the GPU instance.
  [[nodiscard]] unsigned gpu_instance_id() const { return static_cast<unsigned>(index) + 1; }
  [[nodiscard]] unsigned compute_instance_id() const { return 0; }
  /// Of a device with 132.
  [[nodiscard]] int multiprocessors() const;
};

/// The largest instance of which `count`, 1 to 7, fit on a device.
MigInstance mig_instance(int parent, int index, int count);

/// "off", or slot:instances for each device in MIG mode, as in "0:2/3:7"; nullopt for other text.
std::optional<MigDevices> parse_mig(std::string_view text);
/// What parse_mig() reads.
std::string mig_text(const MigDevices& mig);

/// What an instance has of the `bytes` of its device.
std::uint64_t mig_memory_bytes(const MigInstance& instance, std::uint64_t bytes,
                               std::uint64_t granularity);

}  // namespace berth::sim
