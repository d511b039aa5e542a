// SPDX-License-Identifier: Apache-2.0
// What CUDA_VISIBLE_DEVICES means, as one table of cases. It judges berth's rule, and the simulated
// driver through the whole registry, which share no parser; on a machine with a GPU the rule is
// held against the driver itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::test {

// X(name, what it says, source)
#define BERTH_VISIBILITY_RULES(X)                                                              \
  X(not_set, "not set shows everything", kGuide)                                               \
  X(empty, "empty shows nothing", kGuide)                                                      \
  X(sequence, "ordinals show what they name, in their order", kGuide)                          \
  X(invalid_ends, "an entry that names nothing ends the list", kGuide)                         \
  X(minus_one, "-1 ends the list", kGuide)                                                     \
  X(too_large, "a number of any size is no other one", kGuide)                                 \
  X(as_strtol, "ordinals are read as strtol reads numbers", kObserved)                         \
  X(last_comma, "a comma at the end is no entry", kObserved)                                   \
  X(repeated, "a device named twice hides all", kObserved)                                     \
  X(uuid, "UUIDs name devices", kGuide)                                                        \
  X(uuid_abbreviated, "UUIDs may be cut short where that fits one device", kGuide)             \
  X(uuid_exact, "UUIDs are compared letter by letter", kObserved)                              \
  X(kinds, "the first entry's kind is that of all", kObserved)                                 \
  X(order, "CUDA_DEVICE_ORDER says how ordinals count", kGuide)                                \
  X(order_unknown, "another CUDA_DEVICE_ORDER is FASTEST_FIRST", kAssumed)                     \
  X(instance_uuid, "MIG- UUIDs name instances", kMigGuide)                                     \
  X(instance_older_name, "so does MIG-GPU-<uuid>/<gpu instance>/<compute instance>", kGuide)   \
  X(instance_in_full, "the names of instances are not cut short", kAssumed)                    \
  X(instance_many, "since R570 a process sees an instance of each GPU instance", kMigGuide)    \
  X(instance_one, "before R570 a process sees one instance, and nothing beside it", kMigGuide) \
  X(split_device, "a split device stands for its instances, in its place", kAssumed)           \
  X(no_instances, "a split device without instances is an ordinal that shows nothing", kAssumed)

inline constexpr std::string_view kGuide = "CUDA Programming Guide, \"CUDA Environment Variables\"";
inline constexpr std::string_view kMigGuide =
    "NVIDIA Multi-Instance GPU User Guide, \"CUDA Device Enumeration\"";
inline constexpr std::string_view kObserved =
    "driver 525.60.13, as pytorch/pytorch pull request 92315 records it";
inline constexpr std::string_view kAssumed =
    "assumed: no source says it; what the driver shows goes before it";

enum class VisibilityRule {
#define BERTH_ENUMERATOR(name, text, source) name,
  BERTH_VISIBILITY_RULES(BERTH_ENUMERATOR)
#undef BERTH_ENUMERATOR
};

struct VisibleDeviceCase {
  VisibilityRule rule;
  /// nullopt: not set. With the placeholders of with_uuids().
  std::optional<std::string_view> text;
  /// In logical order: physical devices, and instances as "device.instance", both from 0.
  std::string_view visible;
  /// The entry that the problem quotes; nullopt where nothing is wrong.
  std::optional<std::string_view> wrong = std::nullopt;
};

/// The cases of one machine.
struct VisibleDeviceCases {
  std::string_view machine;               ///< as BERTH_SIM describes it
  std::optional<std::string_view> order;  ///< CUDA_DEVICE_ORDER; nullopt: not set
  std::vector<VisibleDeviceCase> cases;
};

/// Machines whose devices are whole.
std::vector<VisibleDeviceCases> whole_device_cases();
/// Machines with MIG, and what CUDA_DEVICE_ORDER does.
std::vector<VisibleDeviceCases> instance_and_order_cases();

/// The UUIDs of one machine, in physical order.
struct MachineUuids {
  std::vector<std::string> devices;
  std::vector<std::vector<std::string>> instances;  ///< of each device
};

/// `text` with UUIDs in place of
///   $N    the UUID of device N
///   %N    the shortest beginning of it that no other device has
///   ~N    the longest beginning of it that another device has
///   ^N    its digits in upper case
///   @N.I  the UUID of instance I of device N
///   !N.I  the same without its last digit
/// nullopt where it names a device or an instance that the machine does not have.
std::optional<std::string> with_uuids(std::string_view text, const MachineUuids& uuids);

}  // namespace berth::test
