// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES, by CUDA's rules. A pure function: no driver, no environment.
//
// Sources: CUDA Programming Guide, "CUDA Environment Variables" (ordinals, UUIDs and their
// abbreviations, the older names of instances, the entry that ends the list). Multi-Instance GPU
// User Guide, "CUDA Device Enumeration" (instances, and how many of them a process sees). Neither
// covers numbers with other text around them, devices that are named twice, and mixed kinds; these
// follow driver 525.60.13, as recorded in pytorch/pytorch pull request 92315. Rules without a
// source are marked "Assumed" below; the driver's actual devices override them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace berth {

/// A compute instance, which CUDA shows for a device that MIG has split.
struct MachineInstance {
  std::string uuid;  ///< "MIG-" and 8-4-4-4-12 hexadecimal digits; empty if unknown
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

struct MachineDevice {
  std::string uuid;  ///< "GPU-" and 8-4-4-4-12 hexadecimal digits; empty if unknown
  bool mig_mode = false;
  std::vector<MachineInstance> instances;  ///< in NVML's order
};

/// The number of MIG instances that one process sees.
enum class MigEnumeration {
  one_a_process,  ///< the first, and then no whole device; drivers before R570
  one_a_gpu_instance,
};

/// `driver_version` is from cuDriverGetVersion. R570 came with CUDA 12.8.
MigEnumeration mig_enumeration_of(int driver_version);

struct Machine {
  std::vector<MachineDevice> devices;  ///< in CUDA's order
  MigEnumeration mig_enumeration = MigEnumeration::one_a_gpu_instance;
};

/// A device or a MIG instance, which CUDA can show.
struct Place {
  std::size_t device;                   ///< index into Machine::devices
  std::optional<std::size_t> instance;  ///< index into its instances

  bool operator==(const Place&) const = default;
};

/// The effect of one entry of the variable.
enum class EntryOutcome {
  shown,         ///< by VisibleEntry::ordinals
  left_out,      ///< names a place that MIG's rules do not show beside the others
  no_instances,  ///< names a device in MIG mode that has no instances
  cleared,       ///< valid, but a later entry repeats a device, which hides all
  repeated,      ///< names the same as an earlier entry
  ends,          ///< -1: ends the list on purpose
  invalid,       ///< names no device, and ends the list
  other_kind,    ///< is not of the first entry's kind, and ends the list
  not_read,      ///< comes after the end of the list
};

struct VisibleEntry {
  std::string text;
  EntryOutcome outcome = EntryOutcome::not_read;
  std::optional<Place> place;  ///< the named place, if any
  std::vector<int> ordinals;   ///< under which CUDA shows it; several for a split device
};

struct VisibleDevices {
  std::vector<Place> places;  ///< position N is `cuda:N`
  /// The entries of the text, in its order; none if the variable is not set or empty.
  std::vector<VisibleEntry> entries;
  /// The problem with the first entry that CUDA does not follow in full, and the accepted forms, in
  /// one line; empty if all entries are valid. Entries that hide all devices on purpose ("" and
  /// "-1") are valid.
  std::string problem;
};

/// The places of the machine that `text` makes visible (nullopt: not set, which shows everything).
///
/// Entries are separated by commas. The beginning of the first entry determines the kind of all
/// entries: "GPU-" means UUIDs of devices, or abbreviations that match a single device; "MIG-"
/// means instances by UUID or as MIG-GPU-<uuid>/<GPU instance>/<compute instance>, in full; any
/// other text means ordinals in CUDA's order. Case matters. Only an ordinal may have blanks and a
/// sign before it, and any text after its digits, as strtol reads numbers.
///
/// A device in MIG mode stands for its instances, in their place. Assumed: it counts as one
/// ordinal, and is not visible if it has no instances.
VisibleDevices resolve_visible_devices(const std::optional<std::string>& text,
                                       const Machine& machine);

}  // namespace berth
