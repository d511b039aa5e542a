// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES, by CUDA's rules. A pure function: no driver, no environment.
//
// Sources: CUDA Programming Guide, "CUDA Environment Variables" (ordinals, UUIDs and their
// abbreviations, the older names of instances, the entry that ends the list). Multi-Instance GPU
// User Guide, "CUDA Device Enumeration" (instances, and how many of them a process sees). On what
// both are silent, numbers with other text around them, devices named twice, kinds that are mixed:
// what driver 525.60.13 does, as pytorch/pytorch pull request 92315 records it. What no source says
// is marked "Assumed" below; what the driver shows goes before it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace berth {

/// A compute instance, what CUDA shows of a device that MIG has split.
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

/// How many instances of MIG one process sees.
enum class MigEnumeration {
  one_a_process,  ///< the first, and then no whole device; drivers before R570
  one_a_gpu_instance,
};

/// `driver_version` as cuDriverGetVersion says it. R570 came with CUDA 12.8.
MigEnumeration mig_enumeration_of(int driver_version);

struct Machine {
  std::vector<MachineDevice> devices;  ///< in CUDA's order
  MigEnumeration mig_enumeration = MigEnumeration::one_a_gpu_instance;
};

/// Something that CUDA can show: a device, or an instance of it.
struct Place {
  std::size_t device;                   ///< index into Machine::devices
  std::optional<std::size_t> instance;  ///< index into its instances

  bool operator==(const Place&) const = default;
};

/// What became of one entry of the variable.
enum class EntryOutcome {
  shown,         ///< by VisibleEntry::ordinals
  left_out,      ///< names something that MIG's rules do not show beside what is shown
  no_instances,  ///< names a device in MIG mode that has no instances
  cleared,       ///< was fine, but a later entry repeats a device, which hides all
  repeated,      ///< names what an entry before it names
  ends,          ///< -1: ends the list on purpose
  invalid,       ///< names nothing, and ends the list
  other_kind,    ///< is not of the first entry's kind, and ends the list
  not_read,      ///< comes after the end of the list
};

struct VisibleEntry {
  std::string text;
  EntryOutcome outcome = EntryOutcome::not_read;
  std::optional<Place> place;  ///< what it names, where it names something
  std::vector<int> ordinals;   ///< under which CUDA shows it; some where it names a split device
};

struct VisibleDevices {
  std::vector<Place> places;  ///< position N is `cuda:N`
  /// Of the text, in its order; none where the variable is not set or empty.
  std::vector<VisibleEntry> entries;
  /// One line on the first entry of which CUDA makes less than it says, and what it accepts; empty
  /// where every entry is fine. Entries that hide all devices on purpose ("" and "-1") are fine.
  std::string problem;
};

/// What `text` (nullopt: not set, which shows everything) makes visible of the machine.
///
/// Entries are separated by commas. The first one's beginning says what all are: "GPU-" the UUIDs
/// of devices, or abbreviations that fit a single device; "MIG-" instances by UUID or as
/// MIG-GPU-<uuid>/<GPU instance>/<compute instance>, in full; anything else ordinals in CUDA's
/// order. Case counts, and only an ordinal may have blanks and a sign before it, and anything after
/// its digits, as strtol reads numbers.
///
/// A device in MIG mode stands for its instances, in their place. Assumed: it counts as one
/// ordinal, and as none of the visible devices where it has no instances.
VisibleDevices resolve_visible_devices(const std::optional<std::string>& text,
                                       const Machine& machine);

}  // namespace berth
