// SPDX-License-Identifier: Apache-2.0
// Which `cuda:N` to use, where nobody has named one.
#pragma once

#include <cstdint>
#include <string_view>

#include "berth/device.hpp"
#include "berth/export.h"

namespace berth {

class DeviceRegistry;

/// By what a device is picked.
enum class DevicePreference : std::uint8_t {
  /// The least used one. How much a device is used is the greater of two percentages: its
  /// utilization (DeviceRegistry::utilization_percent(), 0 where NVML does not tell it), and the
  /// share of its memory that others hold. Of equally used ones the one with the fewest bytes that
  /// others hold, then the lowest ordinal.
  least_used,
  /// The one with the most bytes that nobody holds, then the lowest ordinal.
  most_free_memory,
  /// N of `cuda:N` is local_rank(). Where CUDA_VISIBLE_DEVICES leaves a single device, it is that
  /// one, whatever the rank: a launcher that sets the variable for each process has picked already.
  local_rank,
};

/// A visible device: a whole one, or an instance of MIG. What others hold of its memory is what NVML
/// says is used (MemoryUse::bytes_used) without what it lists for this process. In a container, where
/// NVML does not know this process by its own id, that is everything used.
///
/// Never picked is a device that is lost, one whose compute mode is `prohibited`, and one whose
/// memory NVML does not tell; by use and by free memory, neither is one in the mode
/// `exclusive_process` on which NVML lists another process. Where a single device is visible, there
/// is nothing to compare: it needs no NVML.
///
/// A picked device is not reserved: processes that pick at the same time pick the same one.
///
/// Blocking  Creates no context. NVML takes up to milliseconds a device.
/// Errors    InvalidArgument: there are no CUDA devices; by rank: as local_rank(), or it says none,
///           or there is no such device. NotSupported: by use or free memory without NVML, since the
///           driver tells free memory only to who makes a context; or every device is one that is
///           never picked, each named with the reason; in a forked child.
/// Threads   Safe from any thread. By rank: reads the environment.
BERTH_API Device pick_device(const DeviceRegistry& devices, DevicePreference preference);

/// The `cuda:N` that a device is now, from its UUID as DeviceInfo::uuid and nvidia-smi write it: the
/// name that stays the same when the program is started again, whatever CUDA_VISIBLE_DEVICES says and
/// whatever was plugged in meanwhile. As in that variable, the beginning of a UUID is enough where
/// one device or instance alone, hidden ones among them, has it, and an instance may also be written
/// as MIG-GPU-<uuid>/<GPU instance>/<compute instance>. Case counts.
///
/// Errors   InvalidArgument that lists the visible devices: the text is no UUID, fits no device or
///          several; it fits one that is hidden, and why; one that MIG has split, and into what; one
///          that is lost.
/// Threads  Safe from any thread. An error reads the environment.
BERTH_API Device find_device(const DeviceRegistry& devices, std::string_view uuid);

}  // namespace berth
